//! Whatever a file contains, reading it ends with a configuration or with mistakes, and never otherwise.

use portolan_config::{FIELDS, Given, from_file};
use proptest::prelude::*;

const HEADER: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

fn survives(text: &str) {
    if let Ok(read) = from_file("f", text, &Given::default()) {
        let written = read.document.to_yaml();
        let again = from_file("f", &written, &Given::default()).unwrap_or_else(|it| panic!("{it}\n{written}"));
        assert_eq!(again.document.to_yaml(), written);
    }
}

fn hostile_value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| number.to_string()),
        any::<String>().prop_map(|text| serde_json::to_string(&text).expect("any text can be written")),
        "[-+0-9.a-zµ:/,_ \\[\\]{}&*#|>'\"%@!]{0,24}",
        prop::sample::select(FIELDS).prop_map(|field| field.sample.to_owned()),
        prop::sample::select(
            &["null", "~", "[]", "{}", "[[]]", "{a: {}}", "yes", "-1s", "0s", "9999999h", "&a [*a]"][..]
        )
        .prop_map(str::to_owned),
    ]
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        survives(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_value_of_any_field_is_survived(fields in prop::collection::vec(
        (prop::sample::select(FIELDS), hostile_value()), 1..6,
    )) {
        let lines = fields.iter().map(|(field, value)| {
            let steps: Vec<&str> = field.path.split('.').collect();
            let nested = steps.iter().rev().fold(value.clone(), |inner, step| format!("{{{step}: {inner}}}"));
            format!("{}\n", nested.strip_prefix('{').and_then(|it| it.strip_suffix('}')).unwrap())
        });
        survives(&format!("{HEADER}{}", lines.collect::<String>()));
    }

    #[test]
    fn a_damaged_file_is_survived(place in 0usize..2000, letter in any::<char>()) {
        let text = include_str!("../kubeadm/1.37.conf");
        let damaged: String =
            text.chars().enumerate().map(|(index, it)| if index == place { letter } else { it }).collect();
        survives(&damaged);
    }
}

#[test]
fn depth_and_multiplication_are_survived() {
    survives(&format!("{HEADER}a: {}", "[".repeat(100_000)));
    survives(&format!("{HEADER}a: {}{}", "{a: ".repeat(20_000), "}".repeat(20_000)));
    let bomb: String = (1..40).map(|n| format!("a{n}: &a{n} [*a{p}, *a{p}, *a{p}, *a{p}]\n", p = n - 1)).collect();
    survives(&format!("{HEADER}a0: &a0 [x]\n{bomb}"));
}

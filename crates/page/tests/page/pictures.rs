//! A Service as a picture, and all Services in short.

use serde_json::Value;

use crate::world::{WEB, World};

fn picture(world: &World, name: &str) -> Value {
    serde_json::to_value(world.known().service(name).unwrap()).unwrap()
}

fn part<'a>(list: &'a Value, field: &str, value: &str) -> &'a Value {
    let found = list.as_array().unwrap().iter().find(|it| it[field] == value);
    found.unwrap_or_else(|| panic!("no part with {field} {value} in {list}"))
}

fn route<'a>(picture: &'a Value, address: &str, origin: &str) -> &'a Value {
    let frontend = part(&picture["frontends"], "address", address)["id"].as_str().unwrap();
    let routes = picture["routes"].as_array().unwrap();
    routes.iter().find(|it| it["frontend"] == frontend && it["origin"] == origin).unwrap()
}

#[test]
fn a_picture_leads_from_clients_to_endpoints() {
    let world = World::new(WEB);
    let picture = picture(&world, "default/web");
    let addresses: Vec<&Value> = picture["frontends"].as_array().unwrap().iter().map(|it| &it["address"]).collect();
    assert_eq!(addresses, ["10.96.0.10:80", "192.0.2.80:80", "*:30080"]);
    assert_eq!(picture["clients"].as_array().unwrap().len(), 3);
    let (pod, outside) = (route(&picture, "10.96.0.10:80", "pod"), route(&picture, "10.96.0.10:80", "outside"));
    assert_eq!((&pod["verdict"], &pod["masquerade"]), (&"forward".into(), &false.into()));
    assert_eq!(outside["masquerade"], true);
    let local = route(&picture, "*:30080", "outside")["pool"].as_str().unwrap().to_owned();
    assert_eq!(part(&picture["pools"], "id", &local)["kind"], "local");
    let shares = picture["shares"].as_array().unwrap();
    let of_pool = |pool: &str| shares.iter().filter(|it| it["pool"] == pool).collect::<Vec<_>>();
    assert_eq!(of_pool(&local).len(), 1);
    assert_eq!(of_pool(&local)[0]["share"], 1.0);
    let cluster = of_pool(pod["pool"].as_str().unwrap());
    assert_eq!((cluster.len(), &cluster[0]["share"]), (2, &0.5.into()));
}

#[test]
fn endpoints_have_states_and_counts() {
    let world = World::new(WEB);
    let picture = picture(&world, "default/web");
    let endpoint = |address| part(&picture["endpoints"], "address", address);
    let first = endpoint("10.244.1.2:8080");
    assert_eq!(
        (&first["state"], &first["pod"], &first["is_local"]),
        (&"in use".into(), &"default/web-a".into(), &true.into())
    );
    assert_eq!((&first["connections"], &first["bytes"]), (&3.into(), &400.into()));
    assert_eq!(endpoint("10.244.2.3:8080")["state"], "not ready");
}

#[test]
fn each_part_has_the_line_behind_it() {
    let world = World::new(WEB);
    let picture = picture(&world, "default/web");
    let file = world.folder.path().join("objects.yaml").display().to_string();
    assert_eq!((&picture["object"]["line"], &picture["object"]["file"]), (&1.into(), &file.clone().into()));
    let lines = |part: &Value| -> Vec<String> {
        let behind = part["behind"].as_array().unwrap().iter();
        behind.map(|it| it["text"].as_str().unwrap_or("").trim().to_owned()).collect()
    };
    assert_eq!(lines(part(&picture["frontends"], "address", "10.96.0.10:80")), ["clusterIP: 10.96.0.10", "port: 80"]);
    assert_eq!(lines(part(&picture["frontends"], "address", "*:30080")), ["nodePort: 30080"]);
    assert_eq!(lines(route(&picture, "*:30080", "outside"))[0], "externalTrafficPolicy: Local");
    let endpoint = part(&picture["endpoints"], "address", "10.244.2.2:8080");
    assert_eq!(lines(endpoint)[0], "- addresses: [10.244.2.2]");
    assert_eq!(endpoint["behind"][0]["line"], 24);
}

#[test]
fn a_refusal_has_its_reason() {
    let text = WEB.replace("nodeName: node-a", "nodeName: node-c");
    let picture = picture(&World::new(&text), "default/web");
    let route = route(&picture, "*:30080", "outside");
    assert_eq!(
        (&route["verdict"], &route["reason"], &route["pool"]),
        (&"drop".into(), &"no-local-endpoints".into(), &Value::Null)
    );
}

#[test]
fn unknown_services_are_no_pictures() {
    let world = World::new(WEB);
    for name in ["default/none", "", "a/b/c", "<script>"] {
        assert!(world.known().service(name).is_err() && world.known().modes(name, false).is_err(), "{name}");
    }
}

#[test]
fn rows_are_short() {
    let text = format!(
        "{WEB}---\napiVersion: v1\nkind: Service\nmetadata: {{name: api}}\nspec:\n  clusterIP: 10.96.0.11\n  ports: [{{port: 443}}]\n"
    );
    let world = World::new(&text);
    let rows = serde_json::to_value(world.known().rows()).unwrap();
    assert_eq!(
        rows["services"][0],
        serde_json::json!(["default/api", "ClusterIP", "10.96.0.11", "443/tcp", 0, 0, "no-endpoints", ""])
    );
    assert_eq!(rows["services"][1][0], "default/web");
    assert_eq!((&rows["services"][1][4], &rows["services"][1][5]), (&2.into(), &3.into()));
    let (some, gone) = world.known().rows_of(["default/web".into(), "default/old".into()]);
    assert_eq!((some.len(), gone), (1, vec!["default/old".to_owned()]));
}

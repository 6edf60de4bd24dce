//! The files of the page, which are part of the program.

pub struct Asset {
    pub path: &'static str,
    pub media_type: &'static str,
    pub bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";

/// Every file of `assets/`; `/` is `index.html`.
pub static ASSETS: &[Asset] = &[Asset { path: "/", media_type: HTML, bytes: include_bytes!("../assets/index.html") }];

pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

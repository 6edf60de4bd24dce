//! The files of the page, which are part of the program.

pub struct Asset {
    pub path: &'static str,
    pub media_type: &'static str,
    pub bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

macro_rules! asset {
    ($file:literal, $media_type:expr) => {
        Asset {
            path: concat!("/", $file),
            media_type: $media_type,
            bytes: include_bytes!(concat!("../assets/", $file)),
        }
    };
}

/// Every file of `assets/`; `/` is `index.html`.
pub static ASSETS: &[Asset] = &[
    Asset { path: "/", media_type: HTML, bytes: include_bytes!("../assets/index.html") },
    asset!("api.js", SCRIPT),
    asset!("app.js", SCRIPT),
    asset!("arrows.js", SCRIPT),
    asset!("behind.js", SCRIPT),
    asset!("change.js", SCRIPT),
    asset!("combo.js", SCRIPT),
    asset!("connections.js", SCRIPT),
    asset!("dom.js", SCRIPT),
    asset!("explain.js", SCRIPT),
    asset!("format.js", SCRIPT),
    asset!("health.js", SCRIPT),
    asset!("icon.svg", PICTURE),
    asset!("listing.js", SCRIPT),
    asset!("live.js", SCRIPT),
    asset!("overview.js", SCRIPT),
    asset!("page.css", CSS),
    asset!("path.js", SCRIPT),
    asset!("picture.css", CSS),
    asset!("picture.js", SCRIPT),
    asset!("routes.js", SCRIPT),
    asset!("rows.js", SCRIPT),
    asset!("service.js", SCRIPT),
    asset!("services.js", SCRIPT),
    asset!("spark.js", SCRIPT),
    asset!("store.js", SCRIPT),
    asset!("theme.js", SCRIPT),
    asset!("time.js", SCRIPT),
    asset!("views.css", CSS),
];

pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

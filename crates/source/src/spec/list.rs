//! What the API server sends beside objects.

use super::field::objects;

objects! {
    ListMetadata {
        #[prost(string, tag = "2")]
        resource_version: String,
        #[prost(string, tag = "3")]
        r#continue: String,
    }

    /// Why a request failed.
    Status {
        #[prost(string, tag = "3")]
        message: String,
        #[prost(string, tag = "4")]
        reason: String,
        #[prost(int32, optional, tag = "6")]
        code: Option<i32>,
    }
}

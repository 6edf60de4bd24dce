//! A list, page by page: for servers that do not send initial events.

use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::ended::Ended;
use super::follow::Watcher;
use crate::cluster::client::Body;
use crate::cluster::facts::{Listing, report_malformed};
use crate::cluster::wire::{Encoding, List};

impl Watcher {
    pub(super) async fn list(&mut self) -> Ended {
        match self.all_pages().await {
            Err(ended) => ended,
            Ok((version, listing)) => {
                self.shared.replace(self.resource(), listing, Instant::now());
                self.complete(version);
                self.succeeded();
                Ended::Normally
            }
        }
    }

    /// Only one page is in memory at a time.
    async fn all_pages(&self) -> Result<(String, Listing), Ended> {
        let mut listing = Listing::default();
        let mut next = String::new();
        loop {
            let (encoding, list) = self.page(&next).await?;
            self.collect_page(encoding, &list.items, &mut listing);
            next = list.metadata.r#continue;
            if next.is_empty() {
                return Ok((list.metadata.resource_version, listing));
            }
        }
    }

    async fn page(&self, next: &str) -> Result<(Encoding, List), Ended> {
        let request = self.requests.page(self.shared.tuning.page, next, self.newest).map_err(Ended::failed)?;
        let access = &self.shared.access;
        let response = if next.is_empty() { access.send(request).await } else { access.send_now(request).await };
        let (encoding, body) = self.accept(response.map_err(Ended::failed)?).await?;
        let body = self.whole(body).await?;
        let list =
            encoding.read_list(&body).map_err(|reason| Ended::failed(format!("cannot decode the list: {reason}")))?;
        Ok((encoding, list))
    }

    async fn whole(&self, body: Body) -> Result<Bytes, Ended> {
        let limit = self.shared.tuning.initial_total;
        let body = Limited::new(body, self.shared.tuning.longest_list);
        match tokio::time::timeout(limit, body.collect()).await {
            Err(_) => Err(Ended::failed(format!("the list did not arrive within {limit:?}"))),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                Err(Ended::failed(format!("the list is longer than {} bytes", self.shared.tuning.longest_list)))
            }
            Ok(Err(error)) => Err(Ended::failed(format!(
                "the connection closed during the list: {}",
                crate::cluster::error::chain(&*error)
            ))),
            Ok(Ok(body)) => Ok(body.to_bytes()),
        }
    }

    fn collect_page(&self, encoding: Encoding, items: &[Bytes], listing: &mut Listing) {
        let mut facts = self.shared.facts();
        for item in items {
            match self.resource().read_item(encoding, item) {
                Ok(object) => facts.collect(listing, &object),
                Err(malformed) => {
                    report_malformed(self.resource().kind(), &malformed);
                    let metadata = malformed.metadata.iter();
                    metadata.for_each(|metadata| facts.collect_last_good(listing, metadata, self.resource()));
                }
            }
        }
    }
}

//! Which backend an address wants.

use std::sync::Arc;

use super::{address::Address, cluster, options::Options, sentinel, standalone};
use crate::backend::{Backend, Fault};

/// Connects within the command timeout, and makes sure that there is a server that can be worked with.
pub(crate) async fn connect(address: &Address, options: Options<'_>) -> Result<Arc<dyn Backend>, Fault> {
    match address {
        Address::Server(target) => Ok(Arc::new(standalone::connect(target, options).await?)),
        Address::Sentinel(sentinels) => Ok(Arc::new(sentinel::connect(sentinels, options).await?)),
        Address::Cluster(nodes) => Ok(Arc::new(cluster::connect(nodes, options).await?)),
    }
}

//! etcd behind TLS that wants to know its clients.

use base_clock::{Clock, Entropy};
use base_secrets::Authority;
use cluster_store::{Store, StoreError};
use cluster_store_etcd::{EtcdIdentity, EtcdOptions, EtcdStore, EtcdTls};
use tests_parts::{Etcd, Secured};

use crate::options;
use crate::suite::{object, pod};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_a_certificate_is_accepted_and_others_get_the_reason() {
    let secured = Etcd::start_secured("store").unwrap_or_else(|why| panic!("{why}"));
    let (etcd, Secured { authority, client }) = secured;
    let store = |authority: &Authority, identity| {
        EtcdStore::new(&EtcdOptions {
            tls: Some(EtcdTls {
                authorities_pem: authority.certificate_pem().into_bytes(),
                identity,
                server_name: None,
            }),
            ..options(&etcd.url(), "/secured")
        })
        .unwrap()
    };
    let identity = EtcdIdentity {
        certificates_pem: client.certificate_pem().into_bytes(),
        key_pem: client.key_pem().expose().to_owned().into(),
    };
    let known = store(&authority, Some(identity.clone()));
    let created = known.create(pod("n", "a"), object("a", 0)).await.unwrap();
    assert_eq!(known.get(&created.key).await.unwrap(), Some(created.clone()));

    let stranger = Authority::generate("other", &Clock::real(), &Entropy::os()).unwrap();
    let (unknown, deceived) = (store(&authority, None), store(&stranger, Some(identity)));
    let (unknown, deceived) = tokio::join!(unknown.get(&created.key), deceived.get(&created.key));
    let Err(StoreError::Unavailable(why)) = deceived else {
        panic!("{deceived:?}");
    };
    assert!(why.contains("certificate") && why.contains("UnknownIssuer"), "{why}");
    assert!(matches!(unknown, Err(StoreError::Unavailable(_))), "{unknown:?}");
}

//! The scripts that run on `orangery up` too, on the production form: the same steps, the same answers.

use tests_production::landscape::{Landscape, Settings};
use tests_scenarios::Clients;
use tests_scenarios::scripts::{ALL, clean};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_are_answered_as_by_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings::for_test(folder.path().to_owned());
    let landscape = Landscape::start(&settings).await.unwrap_or_else(|why| panic!("{why}"));
    landscape.until_ready().await.unwrap_or_else(|why| panic!("{why}"));
    let clients = Clients {
        garden: landscape.garden.garden.admin.clone(),
        seeds: landscape.seeds.iter().map(|seed| seed.admin.clone()).collect(),
    };
    for script in ALL {
        let page = script.run(clients.clone()).await;
        clean(&clients).await;
        page.finish();
    }
}

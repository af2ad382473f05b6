//! Scripts of two people with different roles in a project, in virtual time.

use tests_scenarios::World;
use tests_scenarios::scripts::{ALL, clean};

/// Executes a script and compares its page; then nothing of it may be left that another would meet.
async fn execute(name: &str) {
    let world = World::start().await;
    let script = ALL.iter().find(|script| script.name == name).unwrap();
    let page = script.run(world.clients()).await;
    clean(&world.clients()).await;
    page.finish();
}

#[tokio::test(start_paused = true)]
async fn a_deletion_needs_two_people_where_the_project_demands_it() {
    execute("dual-approval").await;
}

#[tokio::test(start_paused = true)]
async fn guarded_fields_need_their_verbs() {
    execute("guarded-fields").await;
}

#[tokio::test(start_paused = true)]
async fn fields_of_the_server_are_not_forged() {
    execute("forged-fields").await;
}

#[tokio::test(start_paused = true)]
async fn a_shoot_changes_its_account_by_who_may_read_both() {
    execute("credentials").await;
}

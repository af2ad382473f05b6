//! What of a template reaches machines that are there already: what their nodes are marked with, and how long things
//! may take. Everything else makes other machines of them. Pure.

use api_machine::MachineSpec;

/// Takes over from `template` what a machine may have without being recreated.
pub(crate) fn pass_on(template: &MachineSpec, machine: &mut MachineSpec) {
    let MachineSpec {
        class: _,
        provider_id: _,
        node_template,
        drain_timeout,
        health_timeout,
        creation_timeout,
        in_place_update_timeout,
        disable_health_timeout,
        max_evict_retries,
        node_conditions,
        preserve_timeout,
    } = template;
    machine.node_template.clone_from(node_template);
    machine.drain_timeout = *drain_timeout;
    machine.health_timeout = *health_timeout;
    machine.creation_timeout = *creation_timeout;
    machine.in_place_update_timeout = *in_place_update_timeout;
    machine.disable_health_timeout = *disable_health_timeout;
    machine.max_evict_retries = *max_evict_retries;
    machine.node_conditions.clone_from(node_conditions);
    machine.preserve_timeout = *preserve_timeout;
}

/// What is left of a template without all that is passed on: what makes its machines what they are.
pub(crate) fn what_makes_it(template: &MachineSpec) -> MachineSpec {
    let mut left = template.clone();
    pass_on(&MachineSpec::default(), &mut left);
    left
}

#[cfg(test)]
mod tests {
    use api_machine::{ClassSpec, NodeTemplateSpec};
    use api_meta::GoDuration;

    use super::*;

    #[test]
    fn timeouts_and_node_template_reach_a_machine_but_class_and_id_stay() {
        let class = |name: &str| {
            Some(ClassSpec {
                name: Some(name.into()),
                ..Default::default()
            })
        };
        let template = MachineSpec {
            class: class("new"),
            node_template: Some(NodeTemplateSpec::default()),
            drain_timeout: Some(GoDuration::from_secs(7)),
            node_conditions: Some("DiskFull".into()),
            ..Default::default()
        };
        let mut machine = MachineSpec {
            class: class("old"),
            provider_id: Some("id".into()),
            health_timeout: Some(GoDuration::from_secs(9)),
            ..Default::default()
        };
        pass_on(&template, &mut machine);
        let expected = MachineSpec {
            class: class("old"),
            provider_id: Some("id".into()),
            ..template.clone()
        };
        assert_eq!(machine, expected);
        let only_class = MachineSpec {
            class: class("new"),
            ..Default::default()
        };
        assert_eq!(what_makes_it(&template), only_class);
    }
}

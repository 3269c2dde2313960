//! Whether another machine's figures compare with this one's.

use crate::harness::machine::Machine;

/// Two machines are alike where a locked instruction takes as long, give or take this share.
const ALIKE: f64 = 0.2;

/// Says in what a machine is not like this one, a sentence each.
pub(super) fn differences(there: &Machine, here: &Machine) -> Vec<String> {
    let mut differences = Vec::new();
    if there.checked_build {
        differences.push("they were measured with a checked build, whose assertions count".to_owned());
    }
    let model = |m: &Machine| m.costs.and_then(|costs| costs.family.zip(costs.model));
    let models = model(there).zip(model(here));
    if there.cpu != here.cpu {
        differences.push(format!("its processor is {}, this one {}", there.cpu, here.cpu));
    } else if let Some((there, here)) = models.filter(|(there, here)| there != here) {
        differences.push(format!(
            "its processor is family {}, model {}, this one family {}, model {}",
            there.0, there.1, here.0, here.1
        ));
    }
    match (there.costs, here.costs) {
        (Some(there), Some(here)) => {
            let (there, here) = (there.locked_ns, here.locked_ns);
            if (there - here).abs() > ALIKE * there.min(here) {
                differences
                    .push(format!("a locked instruction takes {there:.2} ns there, and {here:.2} here"));
            }
        }
        _ => differences.push(
            "the file does not say what a locked instruction takes there (`machine.locked_ns`)".to_owned(),
        ),
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::Costs;

    #[test]
    fn a_machine_is_unlike_by_its_processor_or_by_a_fifth_of_a_locked_instruction() {
        let costs = Costs {
            family: Some(25),
            model: Some(17),
            locked_ns: 2.0,
            store_to_load_ns: 1.0,
            handover_ns: None,
            membarrier_ns: None,
            membarrier_running_ns: None,
        };
        let here = Machine {
            cpu: "A".into(),
            cpus: 2,
            kernel: "6.18".into(),
            checked_build: false,
            costs: Some(costs),
        };
        let with = |costs| Machine { costs: Some(costs), ..here.clone() };
        assert!(differences(&here, &here).is_empty());
        assert!(differences(&with(Costs { locked_ns: 2.39, ..costs }), &here).is_empty());
        assert!(differences(&with(Costs { locked_ns: 2.41, ..costs }), &here)[0].contains("2.41 ns there"));
        assert!(differences(&with(Costs { locked_ns: 1.6, ..costs }), &here)[0].contains("1.60 ns there"));
        assert!(differences(&with(Costs { model: Some(1), ..costs }), &here)[0].contains("model 1,"));
        assert!(
            differences(&Machine { cpu: "B".into(), ..here.clone() }, &here)[0].contains("is B, this one A")
        );
        assert!(
            differences(&Machine { checked_build: true, ..here.clone() }, &here)[0].contains("checked build")
        );
        assert!(differences(&Machine { costs: None, ..here.clone() }, &here)[0].contains("locked_ns"));
    }
}

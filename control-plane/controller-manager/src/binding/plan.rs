//! What a binding needs next. Pure. The binding gets its finalizer before its Secret and loses it after it, so that a
//! controller that holds a Secret is there to let it go.

/// What is known about one binding.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) deleting: bool,
    /// Whether it carries our finalizer.
    pub(crate) held: bool,
    /// Names of the Shoots that use it, if it is being deleted.
    pub(crate) shoots: Vec<String>,
    /// The Secret behind it, if there is one.
    pub(crate) secret: Option<Secret>,
    /// Whether another binding needs the same Secret.
    pub(crate) shared: bool,
}

/// What is known about a Secret.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Secret {
    pub(crate) deleting: bool,
    /// Whether it carries our finalizer.
    pub(crate) held: bool,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// All is as it shall be.
    Nothing,
    /// The binding gets the finalizer.
    Hold,
    /// The Secret gets the finalizer.
    HoldSecret,
    /// Shoots use the binding: it stays.
    Wait,
    /// The Secret loses the finalizer.
    LetSecretGo,
    /// The binding loses the finalizer.
    LetGo,
}

pub(crate) fn plan(seen: &Seen) -> Step {
    let Seen {
        deleting,
        held,
        shoots,
        secret,
        shared,
    } = seen;
    if !deleting {
        return match secret {
            _ if !held => Step::Hold,
            // An object in deletion takes no new finalizer.
            Some(secret) if !secret.held && !secret.deleting => Step::HoldSecret,
            _ => Step::Nothing,
        };
    }
    match secret {
        _ if !held => Step::Nothing,
        _ if !shoots.is_empty() => Step::Wait,
        Some(secret) if secret.held && !shared => Step::LetSecretGo,
        _ => Step::LetGo,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plans and does until nothing is left.
    fn steps(mut seen: Seen) -> Vec<Step> {
        let mut steps = Vec::new();
        loop {
            let step = plan(&seen);
            match (step, &mut seen.secret) {
                (Step::Nothing | Step::Wait, _) => {
                    steps.push(step);
                    return steps;
                }
                (Step::Hold, _) => seen.held = true,
                (Step::LetGo, _) => seen.held = false,
                (Step::HoldSecret, Some(secret)) => secret.held = true,
                (Step::LetSecretGo, Some(secret)) => secret.held = false,
                (Step::HoldSecret | Step::LetSecretGo, None) => panic!("there is no Secret"),
            }
            steps.push(step);
        }
    }

    #[test]
    fn a_binding_is_held_before_its_secret_and_let_go_after_it() {
        let secret = |held| Secret { deleting: false, held };
        let new = Seen {
            deleting: false,
            held: false,
            shoots: Vec::new(),
            secret: Some(secret(false)),
            shared: false,
        };
        assert_eq!(steps(new.clone()), [Step::Hold, Step::HoldSecret, Step::Nothing]);
        assert_eq!(
            steps(Seen {
                secret: None,
                ..new.clone()
            }),
            [Step::Hold, Step::Nothing]
        );
        let late = Secret {
            deleting: true,
            held: false,
        };
        assert_eq!(
            steps(Seen {
                secret: Some(late),
                ..new.clone()
            }),
            [Step::Hold, Step::Nothing]
        );

        let going = Seen {
            deleting: true,
            held: true,
            secret: Some(secret(true)),
            ..new
        };
        assert_eq!(steps(going.clone()), [Step::LetSecretGo, Step::LetGo, Step::Nothing]);
        assert_eq!(
            steps(Seen {
                shared: true,
                ..going.clone()
            }),
            [Step::LetGo, Step::Nothing]
        );
        assert_eq!(
            steps(Seen {
                shoots: vec!["s".to_owned()],
                ..going
            }),
            [Step::Wait]
        );
    }
}

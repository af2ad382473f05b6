//! All functions that expressions may call, in one context of the interpreter.

use kube_cel::KubeCelExt as _;
use kube_cel::cel::Context;

use crate::run::{authorizer, functions, meter, times, values, variables};

thread_local! {
    /// Built once per thread: building it for each rule would be more expensive than most rules.
    pub(crate) static LIBRARY: Context<'static> = {
        let mut context = Context::default().with_all();
        functions::register(&mut context);
        times::register(&mut context);
        meter::register(&mut context);
        values::register_types(&mut context);
        variables::register(&mut context);
        authorizer::register(&mut context);
        context
    };
}

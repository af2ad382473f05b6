//! From a verb on a resource to its handler. It does nothing itself.

use kube::client::Body;

use crate::kinds::registry::{DELETE_COLLECTION, Role};
use crate::kinds::resource::{Connect, Form};
use crate::relay::node_streams;
use crate::requests::{
    action, create, delete, delete_collection, list, patch, pod_actions, read, scale, token_request, update, watch,
};
use crate::state::context::Context;
use crate::wire::answer::Answer;
use crate::wire::status::Status;

/// Runs the handler of `verb`.
pub(crate) async fn dispatch(context: &Context, verb: &str, body: Body) -> Result<Answer, Status> {
    if let Some(name) = context.subresource() {
        return subresource(context, verb, name, body).await;
    }
    if !context.target.rest.is_empty() {
        return Err(Status::no_such_resource());
    }
    let named = context.target.name.is_some();
    match (verb, named) {
        ("get", true) => read::get(context).await,
        ("list", _) => list::list(context).await,
        ("watch", _) => watch::watch(context).await,
        ("create", false) => create::create(context, body).await,
        // As in kube-apiserver, only the body names the object to create.
        ("create", true) if context.served.role == Role::Custom => create::create(context, body).await,
        ("update", true) => update::update(context, body).await,
        ("patch", true) => patch::patch(context, body).await,
        ("delete", true) => delete::delete(context, body).await,
        (DELETE_COLLECTION, false) if context.served.verbs().contains(&DELETE_COLLECTION) => {
            delete_collection::delete_all(context, body).await
        }
        _ => Err(Status::method_not_allowed()),
    }
}

async fn subresource(context: &Context, verb: &str, name: &str, body: Body) -> Result<Answer, Status> {
    let subresource = context
        .served
        .info()
        .find_subresource(name, context.version())
        .ok_or_else(|| match context.served.role {
            Role::Custom => context.not_found(context.name()),
            _ => Status::no_such_resource(),
        })?;
    if !context.target.rest.is_empty() && !matches!(subresource.form, Form::Unsupported(_)) {
        return Err(Status::no_such_resource());
    }
    match (&subresource.form, verb) {
        (Form::Unsupported(what), _) => Err(Status::not_implemented(what)),
        (Form::Part, "get") => read::get(context).await,
        (Form::Part, "update") => update::update(context, body).await,
        (Form::Part, "patch") => patch::patch(context, body).await,
        (Form::Scale(paths), verb) => scale::answer(context, paths, verb, body).await,
        (Form::Action(action), "create") => {
            context.query.check("CreateOptions", Vec::new())?;
            action::run(context, action.as_ref(), body).await
        }
        (Form::Connect(Connect::Log), "get") => node_streams::log(context).await,
        (Form::Internal, "create") => match (context.served.role, name) {
            (Role::Pod, "binding") => pod_actions::bind(context, body).await,
            (Role::Pod, "eviction") => pod_actions::evict(context, body).await,
            (Role::ServiceAccount, "token") => token_request::request(context, body).await,
            _ => Err(Status::no_such_resource()),
        },
        _ => Err(Status::method_not_allowed()),
    }
}

//! The commands of docs/production.md, executed in its order; pods are processes, which are started where the page waits for
//! pods.

use std::time::Instant;

use base_client::{Connector, Https};
use kube::Client;
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use tests_conformance::real::{Options, Real};
use tests_parts::{Etcd, Secured};
use tests_production::garden::{GROUPS, until_served};
use tests_production::{LOOK_PAUSE, PATIENCE};

use crate::page::Page;
use crate::pods::{self, Pod};
use crate::shell::Shell;

const PAGE: &str = include_str!("../../../../docs/production.md");
const GARDEN: &str = "garden-admin.kubeconfig";
const SEED: &str = "seed-admin.kubeconfig";
/// The namespace of the garden's release.
const RELEASE: &str = "orangery-system";
const APISERVER: &str = "garden-apiserver";
const ADMISSION: &str = "gardener-admission-controller";

/// Two clusters, an etcd, and the folder of a person who types.
struct World {
    garden: Real,
    _seed: Real,
    etcd: Etcd,
    shell: Shell,
    page: Page,
}

/// The garden's components, while they run.
struct Components {
    apiserver: Pod,
    admission: Pod,
    controllers: Pod,
    scheduler: Pod,
}

impl World {
    async fn start() -> Self {
        let controllers = Options {
            controllers: true,
            ..Options::default()
        };
        let garden = Real::start(controllers).await.unwrap_or_else(|why| panic!("{why}"));
        let seed = Real::start(Options::default())
            .await
            .unwrap_or_else(|why| panic!("{why}"));
        let (etcd, Secured { authority, client }) = Etcd::start_secured("garden").unwrap();
        let shell = Shell::new(&["charts", "deploy", "examples"]);
        shell.write(GARDEN, garden.endpoint.kubeconfig.expose());
        shell.write(SEED, seed.endpoint.kubeconfig.expose());
        shell.write("etcd-ca.crt", &authority.certificate_pem());
        shell.write("etcd-client.crt", &client.certificate_pem());
        shell.write("etcd-client.key", client.key_pem().expose());
        shell.run(&format!("export ETCD_SERVERS={}", etcd.url()));
        let page = Page::read(PAGE);
        Self {
            garden,
            _seed: seed,
            etcd,
            shell,
            page,
        }
    }

    /// Executes the next block of the page.
    fn next(&mut self, heading: &str) -> String {
        self.page.next(&self.shell, heading)
    }

    /// Starts the components of the garden as the chart has them, and leads kube-apiserver to its API and webhooks.
    async fn components(&self) -> Components {
        let start = |name: &str| pods::start(&self.shell, GARDEN, RELEASE, name);
        let components = Components {
            apiserver: start(APISERVER),
            admission: start(ADMISSION),
            controllers: start("gardener-controller-manager"),
            scheduler: start("gardener-scheduler"),
        };
        self.lead_to(&components).await;
        components
    }

    async fn lead_to(&self, components: &Components) {
        self.lead(APISERVER, components.apiserver.port);
        self.lead(ADMISSION, components.admission.port);
        self.until_served().await;
    }

    /// Starts kube-apiserver again with the files of the page, which name another path and Service's address than are here.
    async fn authorize(&mut self, components: &Components) {
        let (authorizer, authorization) = ("seed-authorizer.kubeconfig", "authorization.yaml");
        let (path, port) = (self.shell.path(authorizer), components.admission.port);
        self.shell.run(&format!(
            "sed -i 's|server: https://[^/]*/|server: https://localhost:{port}/|' {authorizer}
sed 's|/etc/kubernetes/garden/seed-authorizer.kubeconfig|{}|' deploy/production/authorization-configuration.yaml > {authorization}",
            path.display()
        ));
        let path = self.shell.path(authorization);
        self.garden
            .authorize_by(&path)
            .await
            .unwrap_or_else(|why| panic!("{why}"));
        self.until_served().await;
    }

    /// Lets a Service of the release lead to a port of this machine, which no real Service can, and all that names the Service
    /// name that port. It is written as Helm writes, so that an upgrade takes it back.
    fn lead(&self, service: &str, port: u16) {
        let manifest = self.shell.run("helm get manifest garden --namespace orangery-system");
        let mut changed = Vec::new();
        for mut object in base_yaml::read_all_strict::<Value>(&manifest).unwrap() {
            let is_it = object["metadata"]["name"] == service && object["kind"] == "Service";
            if is_it {
                object["spec"] = json!({"type": "ExternalName", "externalName": "localhost"});
            }
            let mut leading = services(&mut object);
            leading.retain(|named| named["name"] == service);
            let is_changed = is_it || !leading.is_empty();
            for named in leading {
                named["port"] = json!(port);
            }
            if is_changed {
                changed.push(object);
            }
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": changed}).to_string();
        let apply = "kubectl apply --server-side --force-conflicts --field-manager=helm -f -";
        self.shell.run_with(&format!("{apply} --kubeconfig {GARDEN}"), &list);
    }

    /// Waits until kube-apiserver leads to the garden's API: no watch reports it.
    async fn until_served(&self) {
        let kubeconfig = Kubeconfig::from_yaml(self.garden.endpoint.kubeconfig.expose()).unwrap();
        let client: Client = Https::new("tests").client(&kubeconfig).unwrap();
        for (group, version) in GROUPS {
            until_served(&client, group, version).await;
        }
    }

    /// Waits until a Lease in namespace `garden` has a holder.
    fn until_held(&self, kubeconfig: &str, lease: &str) {
        let found = format!("--kubeconfig {kubeconfig} --namespace garden --timeout 2m lease/{lease}");
        self.shell.run(&format!(
            "kubectl wait --for=create {found}\nkubectl wait --for=jsonpath='{{.spec.holderIdentity}}' {found}"
        ));
    }

    /// A key of a Secret of the release.
    fn secret(&self, name: &str, key: &str) -> String {
        let path = key.replace('.', "\\.");
        let get = format!("kubectl get secret {name} --namespace {RELEASE} --kubeconfig {GARDEN}");
        self.shell.run(&format!("{get} --output jsonpath='{{.data.{path}}}'"))
    }
}

/// Where an object names the Service that answers for it.
fn services(object: &mut Value) -> Vec<&mut Value> {
    if object["webhooks"].is_array() {
        let webhooks = object["webhooks"].as_array_mut().into_iter().flatten();
        return webhooks
            .map(|webhook| &mut webhook["clientConfig"]["service"])
            .collect();
    }
    object.pointer_mut("/spec/service").into_iter().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pages_commands_create_a_garden_and_a_seed_and_restore_backups() {
    let mut world = World::start().await;
    let components = install(&mut world).await;
    seed(&mut world);
    upgrade(&mut world);
    let _components = restore(&mut world, components).await;
    certificates(&mut world);
    world.page.end();
}

async fn install(world: &mut World) -> Components {
    world.next("2. A namespace for the garden's pods");
    world.next("3. etcd");
    world.next("4. Install the garden");
    let components = world.components().await;
    world.until_held(GARDEN, "gardener-controller-manager-leader-election");
    world.until_held(GARDEN, "gardener-scheduler-leader-election");
    let printed = world.next("4. Install the garden");
    assert!(printed.contains("gardener-scheduler-leader-election"), "{printed}");
    world.next("5. Authorize gardenlets");
    world.authorize(&components).await;
    let printed = world.next("6. A project");
    assert!(printed.contains("garden-local"), "{printed}");
    components
}

/// A seed of which gardenlet runs with the rights and files of its chart.
fn seed(world: &mut World) {
    let printed = world.next("7. Extensions");
    assert!(printed.contains("provider-local"), "{printed}");
    world.next("8. The credentials of a seed");
    let printed = world.next("8. The credentials of a seed");
    assert!(printed.contains("system:bootstrappers:seed:north"), "{printed}");
    world.next("9. The seed");
    world.next("9. The seed");
    let gardenlet = pods::start(&world.shell, SEED, "garden", "gardenlet");
    world.until_held(SEED, "gardenlet-leader-election");
    renew(world);
    let logged = gardenlet.running.logged();
    assert!(!logged.contains("has no effect"), "{logged}");
    assert!(logged.contains("starting again with the new credential"), "{logged}");
    refuse_token(world);
    assert!(gardenlet.running.stop().success());
}

/// gardenlet has got its certificate with the token, and gets another when its Seed asks for it.
fn renew(world: &World) {
    let run = |commands: &str| world.shell.run(commands);
    let secret = format!("--namespace garden --kubeconfig {SEED} --timeout=2m");
    run(&format!(
        "kubectl wait --for=create secret/gardenlet-kubeconfig {secret}"
    ));
    run(&format!(
        "kubectl wait --for=delete secret/gardenlet-kubeconfig-bootstrap {secret}"
    ));
    run(&format!(
        "kubectl wait --for=create seed/north --timeout=2m --kubeconfig {GARDEN}"
    ));
    let get = format!("kubectl get secret gardenlet-kubeconfig --namespace garden --kubeconfig {SEED}");
    let stored = || run(&format!("{get} --output jsonpath='{{.metadata.resourceVersion}}'"));
    let (before, begun) = (stored(), Instant::now());
    run(&format!(
        "kubectl annotate seed north gardener.cloud/operation=renew-kubeconfig --kubeconfig {GARDEN}"
    ));
    while stored() == before {
        assert!(begun.elapsed() < PATIENCE, "the certificate is not renewed");
        std::thread::sleep(LOOK_PAUSE);
    }
    // The operation is taken from the Seed, and what works with the new certificate reports it ready again.
    run(&format!(
        "kubectl wait --for=jsonpath='{{.spec.holderIdentity}}' --timeout=2m lease/north --namespace gardener-system-seed-lease --kubeconfig {GARDEN}"
    ));
    let annotation = "{.metadata.annotations.gardener\\.cloud/operation}";
    let left = run(&format!(
        "kubectl get seed north --kubeconfig {GARDEN} --output jsonpath='{annotation}'"
    ));
    assert_eq!(left, "");
}

/// A token that is for no seed in particular is not good for a seed that is there.
fn refuse_token(world: &World) {
    let printed = world.shell.run(&format!(
        r#"kubectl create secret generic bootstrap-token-aaaaaa --namespace kube-system --type=bootstrap.kubernetes.io/token \
  --from-literal=token-id=aaaaaa --from-literal=token-secret=0123456789abcdef \
  --from-literal=usage-bootstrap-authentication=true --kubeconfig {GARDEN}
cp north.kubeconfig other.kubeconfig
kubectl config set-credentials bootstrap --token aaaaaa.0123456789abcdef --kubeconfig other.kubeconfig
openssl req -newkey rsa:2048 -nodes -keyout other.key -out other.csr \
  -subj "/O=gardener.cloud:system:seeds/CN=gardener.cloud:system:seed:north" 2> openssl.log
cat <<END | kubectl create --kubeconfig other.kubeconfig -f -
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata:
  name: other
spec:
  signerName: kubernetes.io/kube-apiserver-client
  usages: [digital signature, key encipherment, client auth]
  request: $(base64 --wrap=0 other.csr)
END
kubectl wait --for=condition=Denied --timeout=2m csr/other --kubeconfig {GARDEN}
kubectl get csr other --kubeconfig {GARDEN} --output jsonpath='{{.status.conditions[0].message}}'"#
    ));
    assert!(
        printed.contains("system:bootstrappers:seed:north in auth-extra-groups"),
        "{printed}"
    );
}

/// An upgrade changes the image and leaves what was generated.
fn upgrade(world: &mut World) {
    let before = [
        world.secret("garden-ca", "ca.key"),
        world.secret("garden-apiserver-tls", "tls.crt"),
    ];
    world.next("Upgrade");
    let after = [
        world.secret("garden-ca", "ca.key"),
        world.secret("garden-apiserver-tls", "tls.crt"),
    ];
    assert_eq!(before, after);
    let get = format!("kubectl get deployment garden-apiserver --namespace {RELEASE} --kubeconfig {GARDEN}");
    let image = world.shell.run(&format!("{get} --output jsonpath='{{..image}}'"));
    assert_eq!(image, "registry.example.com/orangery:v0.1.1");
}

/// What was there is there again, and what came later is not.
async fn restore(world: &mut World, components: Components) -> Components {
    world.lead_to(&components).await;
    world.next("Backup of etcd");
    world.shell.run(
        "sed 's/name: local$/name: late/; s/garden-local/garden-late/' examples/10-project.yaml | kubectl apply -f -",
    );
    world.next("Restore of etcd");
    let Components {
        apiserver,
        admission,
        controllers,
        scheduler,
    } = components;
    for pod in [controllers, scheduler, admission, apiserver] {
        assert!(pod.running.stop().success());
    }
    world.next("Restore of etcd");
    world.etcd.replace_data(&world.shell.path("restored")).unwrap();
    let components = world.components().await;
    let printed = world.next("Restore of etcd");
    assert!(printed.contains("local") && !printed.contains("late"), "{printed}");
    // It works again, and not only answers: the state before the snapshot is changed, and watched.
    world
        .shell
        .run("kubectl delete cloudprofile local && kubectl get seeds,shoots --all-namespaces");
    components
}

fn certificates(world: &mut World) {
    let date = world.next("Certificates");
    let parts: Vec<usize> = date.trim().split('-').map(str::len).collect();
    assert_eq!(parts, [4, 2, 2], "{date}");
    let before = [
        world.secret("garden-ca", "ca.crt"),
        world.secret("garden-apiserver-tls", "tls.crt"),
    ];
    let printed = world.next("Certificates");
    assert!(printed.contains("notAfter="), "{printed}");
    assert_eq!(world.secret("garden-ca", "ca.crt"), before[0]);
    assert_ne!(world.secret("garden-apiserver-tls", "tls.crt"), before[1]);
}

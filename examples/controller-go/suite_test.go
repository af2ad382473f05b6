// A test suite as kubebuilder lays it out. It does not know what stands behind KUBEBUILDER_ASSETS.
package greetings

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const patience = 20 * time.Second

var (
	environment *envtest.Environment
	k8s         client.Client
	started     time.Duration
)

func TestMain(m *testing.M) {
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	os.Exit(run(m))
}

func run(m *testing.M) int {
	scheme := runtime.NewScheme()
	must(clientgoscheme.AddToScheme(scheme))
	must(AddToScheme(scheme))
	environment = &envtest.Environment{CRDDirectoryPaths: []string{"config/crd"}, ErrorIfCRDPathMissing: true}
	begun := time.Now()
	config, err := environment.Start()
	must(err)
	started = time.Since(begun)
	defer func() { must(environment.Stop()) }()

	k8s, err = client.New(config, client.Options{Scheme: scheme})
	must(err)
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                  scheme,
		Metrics:                 server.Options{BindAddress: "0"},
		LeaderElection:          true,
		LeaderElectionID:        "greetings",
		LeaderElectionNamespace: "default",
	})
	must(err)
	must((&Reconciler{manager.GetClient()}).SetupWithManager(manager))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	defer func() { cancel(); must(<-ended) }()
	return m.Run()
}

// must ends the suite where its set-up fails.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func eventually(t *testing.T, what string, done func(context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) { return done(ctx), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func greet(t *testing.T, name, to string) *Greeting {
	t.Helper()
	greeting := &Greeting{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: GreetingSpec{To: to}}
	if err := k8s.Create(t.Context(), greeting); err != nil {
		t.Fatal(err)
	}
	return greeting
}

func TestTheEnvironmentStarts(t *testing.T) {
	t.Logf("ready with custom resources after %v", started.Round(time.Millisecond))
}

func TestAGreetingIsDefaultedAndSaid(t *testing.T) {
	greeting := greet(t, "said", "World")
	if greeting.Spec.Word != "Hello" {
		t.Fatalf("not defaulted: %+v", greeting.Spec)
	}
	key := client.ObjectKeyFromObject(greeting)
	eventually(t, "the status says so", func(ctx context.Context) bool {
		return k8s.Get(ctx, key, greeting) == nil && greeting.Status.Said == "Hello, World!"
	})
	var words corev1.ConfigMap
	if err := k8s.Get(t.Context(), key, &words); err != nil {
		t.Fatal(err)
	}
	if words.Data["said"] != "Hello, World!" || !metav1.IsControlledBy(&words, greeting) {
		t.Fatalf("not as said: %+v", words)
	}
}

func TestWhatSomebodyElseChangesIsMended(t *testing.T) {
	key := client.ObjectKeyFromObject(greet(t, "mended", "Moon"))
	words := &corev1.ConfigMap{}
	eventually(t, "the words are there", func(ctx context.Context) bool { return k8s.Get(ctx, key, words) == nil })
	other := corev1apply.ConfigMap(key.Name, key.Namespace).WithData(map[string]string{"said": "nothing"})
	if err := k8s.Apply(t.Context(), other, client.FieldOwner("somebody"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the words are back", func(ctx context.Context) bool {
		return k8s.Get(ctx, key, words) == nil && words.Data["said"] == "Hello, Moon!"
	})
}

func TestAGreetingGoesWithItsFinalizer(t *testing.T) {
	greeting := greet(t, "gone", "Sun")
	key := client.ObjectKeyFromObject(greeting)
	eventually(t, "the finalizer is there", func(ctx context.Context) bool {
		return k8s.Get(ctx, key, greeting) == nil && len(greeting.Finalizers) == 1
	})
	if err := k8s.Delete(t.Context(), greeting); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is gone", func(ctx context.Context) bool {
		return apierrors.IsNotFound(k8s.Get(ctx, key, greeting))
	})
}

func TestTheSchemaIsHeldTo(t *testing.T) {
	long := &Greeting{
		ObjectMeta: metav1.ObjectMeta{Name: "long", Namespace: "default"},
		Spec:       GreetingSpec{To: strings.Repeat("a", 21)},
	}
	if err := k8s.Create(t.Context(), long); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "Too long: may not be more than 20") {
		t.Fatalf("taken: %v", err)
	}
	greeting := greet(t, "ruled", "Mars")
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"to":"Venus"}}`))
	if err := k8s.Patch(t.Context(), greeting, patch); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "whom one greets stays the same") {
		t.Fatalf("taken: %v", err)
	}
}

func TestAUserMayDoWhatTheyAreAllowed(t *testing.T) {
	user, err := environment.AddUser(envtest.User{Name: "reader", Groups: []string{"readers"}}, nil)
	must(err)
	reader, err := client.New(user.Config(), client.Options{Scheme: k8s.Scheme()})
	must(err)
	list := func() error { return reader.List(t.Context(), &GreetingList{}, client.InNamespace("default")) }
	if err := list(); !apierrors.IsForbidden(err) {
		t.Fatalf("not refused: %v", err)
	}
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader", Namespace: "default"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{GroupVersion.Group}, Resources: []string{"greetings"}, Verbs: []string{"list"}}},
	}
	must(k8s.Create(t.Context(), role))
	must(k8s.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader", Namespace: "default"},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "Group", Name: "readers"}},
	}))
	eventually(t, "it is allowed", func(context.Context) bool { return list() == nil })
}

func TestPodsNeedNoAccountAndRunNowhere(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "p-", Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	must(k8s.Create(t.Context(), pod))
	if pod.Spec.ServiceAccountName != "" || pod.Status.Phase != corev1.PodPending {
		t.Fatalf("not as envtest has it: %+v", pod)
	}
}

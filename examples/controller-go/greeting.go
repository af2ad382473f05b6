// Package greetings is a controller as many are: for each Greeting it keeps a ConfigMap of its own, says in the status
// what it wrote, and cleans up behind a finalizer.
package greetings

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Finalizer keeps a Greeting until goodbye has been said.
const Finalizer = "example.orangery.dev/goodbye"

// GroupVersion of the kind.
var GroupVersion = schema.GroupVersion{Group: "example.orangery.dev", Version: "v1"}

// Greeting is a custom resource.
type Greeting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GreetingSpec   `json:"spec"`
	Status            GreetingStatus `json:"status,omitempty"`
}

// GreetingSpec says whom to greet and how.
type GreetingSpec struct {
	To   string `json:"to"`
	Word string `json:"word,omitempty"`
}

// GreetingStatus says what was said.
type GreetingStatus struct {
	Said string `json:"said,omitempty"`
}

// GreetingList is a list of them.
type GreetingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Greeting `json:"items"`
}

// DeepCopyObject copies it.
func (g *Greeting) DeepCopyObject() runtime.Object {
	copied := *g
	g.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	return &copied
}

// DeepCopyObject copies it.
func (l *GreetingList) DeepCopyObject() runtime.Object {
	copied := &GreetingList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&copied.ListMeta)
	for i := range l.Items {
		copied.Items = append(copied.Items, *l.Items[i].DeepCopyObject().(*Greeting))
	}
	return copied
}

// AddToScheme makes the kind known.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Greeting{}, &GreetingList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Reconciler of Greetings.
type Reconciler struct{ client.Client }

// SetupWithManager registers it.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).For(&Greeting{}).Owns(&corev1.ConfigMap{}).Complete(r)
}

// Reconcile brings one Greeting about.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var greeting Greeting
	if err := r.Get(ctx, request.NamespacedName, &greeting); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !greeting.DeletionTimestamp.IsZero() {
		controllerutil.RemoveFinalizer(&greeting, Finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, &greeting))
	}
	if controllerutil.AddFinalizer(&greeting, Finalizer) {
		if err := r.Update(ctx, &greeting); err != nil {
			return ctrl.Result{}, err
		}
	}
	said := fmt.Sprintf("%s, %s!", greeting.Spec.Word, greeting.Spec.To)
	words := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: greeting.Name, Namespace: greeting.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, words, func() error {
		words.Data = map[string]string{"said": said}
		return controllerutil.SetControllerReference(&greeting, words, r.Scheme())
	})
	if err != nil || greeting.Status.Said == said {
		return ctrl.Result{}, err
	}
	greeting.Status.Said = said
	return ctrl.Result{}, r.Status().Update(ctx, &greeting)
}

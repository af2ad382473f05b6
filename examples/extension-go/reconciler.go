package main

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const (
	// typeName of the kinds that are served, and the name of the machine image.
	typeName  = "example-go"
	finalizer = "extensions.gardener.cloud/" + typeName
)

const (
	opCreate    = "Create"
	opReconcile = "Reconcile"
	opDelete    = "Delete"
	opMigrate   = "Migrate"
	opRestore   = "Restore"
)

// actuator does for one kind what has to be done; the reconciler around it does what is the same for all kinds.
type actuator interface {
	// reconcile brings the object about, and changes its status but for the fields of Status.
	reconcile(ctx context.Context, o object) error
	// remove undoes it. It succeeds when there is nothing to undo.
	remove(ctx context.Context, o object) error
}

// configurationProblem is an error that the user can mend and a retry cannot.
type configurationProblem struct{ error }

type reconciler struct {
	client.Client
	// live reads from the API server: the cache may lag behind this program's own last write.
	live     client.Reader
	kind     string
	create   func() object
	actuator actuator
}

func (r *reconciler) setup(manager ctrl.Manager) error {
	ours := predicate.NewPredicateFuncs(func(o client.Object) bool {
		spec, _ := o.(object).common()
		return spec.Type == typeName && (spec.Class == "" || spec.Class == "shoot")
	})
	// Not for a change of the status: a failed operation would be tried again as soon as its failure is reported.
	asked := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	return ctrl.NewControllerManagedBy(manager).For(r.create(), builder.WithPredicates(ours, asked)).Complete(r)
}

// operationOf is what is to be done now, or nothing.
func operationOf(o object) string {
	annotation := o.GetAnnotations()[annotationOperation]
	_, status := o.common()
	last := status.LastOperation
	switch {
	case annotation == "wait-for-state":
		return ""
	case annotation == "migrate":
		return opMigrate
	case !o.GetDeletionTimestamp().IsZero():
		if controllerutil.ContainsFinalizer(o, finalizer) {
			return opDelete
		}
		return ""
	case annotation == "restore":
		return opRestore
	case last == nil:
		return opCreate
	case last.Type == opMigrate && last.State == stateSucceeded:
		return ""
	case last.State != stateSucceeded && (last.Type == opCreate || last.Type == opRestore || last.Type == opMigrate):
		return last.Type
	case last.State != stateSucceeded || annotation == "reconcile":
		return opReconcile
	default:
		return ""
	}
}

// Reconcile does one operation.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	o := r.create()
	if err := r.live.Get(ctx, request.NamespacedName, o); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	operation := operationOf(o)
	if operation == "" {
		return ctrl.Result{}, nil
	}
	leaves := operation == opDelete || operation == opMigrate
	var cluster Cluster
	err := r.Get(ctx, client.ObjectKey{Name: o.GetNamespace()}, &cluster)
	if err != nil && (!leaves || client.IgnoreNotFound(err) != nil) {
		return ctrl.Result{}, fmt.Errorf("read the Cluster: %w", err)
	}
	if last := cluster.Spec.Shoot.Status.LastOperation; last != nil && last.State == stateFailed {
		return ctrl.Result{}, nil
	}
	// The annotation goes first: one that is set from now on asks for another turn.
	if err := r.patch(ctx, o, func() {
		removeOperation(o, "reconcile")
		if !leaves {
			controllerutil.AddFinalizer(o, finalizer)
		}
	}); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	begin := func() { r.report(o, operation, stateProcessing, 1, r.kind+" is being worked on", nil) }
	if err := r.patchStatus(ctx, o, begin); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	ctrl.LoggerFrom(ctx).Info("begins", "operation", operation)
	return ctrl.Result{}, r.act(ctx, o, operation)
}

func (r *reconciler) act(ctx context.Context, o object, operation string) error {
	before := o.DeepCopyObject().(client.Object)
	var err error
	switch operation {
	case opDelete:
		err = r.actuator.remove(ctx, o)
	case opMigrate: // what was created stays for the seed that takes over, or goes with the namespace
	default:
		err = r.actuator.reconcile(ctx, o)
	}
	if err != nil {
		r.report(o, operation, stateError, 50, "Error: "+err.Error(), err)
	} else {
		r.report(o, operation, stateSucceeded, 100, r.kind+" is as it should be", nil)
	}
	if failed := r.Status().Patch(ctx, o, client.MergeFrom(before)); failed != nil {
		return errors.Join(err, client.IgnoreNotFound(failed))
	}
	if err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("succeeded", "operation", operation)
	return client.IgnoreNotFound(r.patch(ctx, o, func() {
		removeOperation(o, "restore")
		if operation == opDelete || operation == opMigrate {
			removeOperation(o, "migrate")
			controllerutil.RemoveFinalizer(o, finalizer)
		}
	}))
}

// report writes the status into the object, without sending it. A last error stays until the operation ends.
func (r *reconciler) report(o object, operation, state string, progress int32, text string, err error) {
	_, status := o.common()
	now := metav1.Now()
	status.LastOperation = &LastOperation{operation, state, progress, text, now}
	if state == stateProcessing {
		return
	}
	status.ObservedGeneration = o.GetGeneration()
	status.LastError = nil
	if err != nil {
		status.LastError = &LastError{Description: err.Error(), LastUpdateTime: &now}
		if errors.As(err, &configurationProblem{}) {
			status.LastError.Codes = []string{codeConfigurationProblem}
		}
	}
}

// patch sends what the edit changes, unless another writer was faster: finalizers are a list.
func (r *reconciler) patch(ctx context.Context, o object, edit func()) error {
	before := o.DeepCopyObject().(client.Object)
	edit()
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if changes, err := client.MergeFrom(before).Data(o); err != nil || string(changes) == "{}" {
		return err
	}
	return r.Patch(ctx, o, patch)
}

func (r *reconciler) patchStatus(ctx context.Context, o object, edit func()) error {
	before := o.DeepCopyObject().(client.Object)
	edit()
	return r.Status().Patch(ctx, o, client.MergeFrom(before))
}

func removeOperation(o object, operation string) {
	annotations := o.GetAnnotations()
	if annotations[annotationOperation] == operation {
		delete(annotations, annotationOperation)
		o.SetAnnotations(annotations)
	}
}

// A client-go program: informers, leader election, server-side apply, typed, dynamic and discovery clients. It says what it
// sees, without what a cluster chooses by itself, so that what it says of two clusters can be compared.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/pager"
	toolswatch "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/retry"
)

const (
	namespace = "t-go"
	patience  = 30 * time.Second
)

type program struct {
	config *rest.Config
	kube   kubernetes.Interface
	ctx    context.Context
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must("read the kubeconfig", err)
	// The second round speaks protobuf, as most Go programs do for kinds of Kubernetes itself.
	if len(os.Args) > 1 {
		config.ContentType = os.Args[1]
		config.AcceptContentTypes = os.Args[1] + ",application/json"
	}
	config.QPS, config.Burst = 1000, 1000
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	p := program{config: config, kube: kubernetes.NewForConfigOrDie(config), ctx: ctx}
	name := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	_, err = p.kube.CoreV1().Namespaces().Create(ctx, name, metav1.CreateOptions{})
	must("create the namespace", err)
	p.informers()
	p.leaders()
	p.apply()
	p.dynamic()
	p.pages()
	p.conflicts()
	p.tokens()
	p.workloads()
	must("delete the namespace", p.kube.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}))
	p.until("the namespace goes", func() bool {
		_, err := p.kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	fmt.Println("done")
}

func must(doing string, err error) {
	if err != nil {
		fmt.Printf("cannot %s: %v\n", doing, err)
		os.Exit(1)
	}
}

func (p program) until(what string, done func() bool) {
	err := wait.PollUntilContextTimeout(p.ctx, 20*time.Millisecond, patience, true,
		func(context.Context) (bool, error) { return done(), nil })
	must("wait until "+what, err)
	fmt.Println(what)
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"by": "go"}}, Data: data}
}

// informers: a shared informer sees what is there, what comes, changes and goes, once each and in order.
func (p program) informers() {
	maps := p.kube.CoreV1().ConfigMaps(namespace)
	_, err := maps.Create(p.ctx, configMap("before", nil), metav1.CreateOptions{})
	must("create before", err)
	factory := informers.NewSharedInformerFactoryWithOptions(p.kube, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "by=go" }))
	informer := factory.Core().V1().ConfigMaps()
	var lock sync.Mutex
	var seen []string
	note := func(what string, object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		found := object.(*corev1.ConfigMap)
		lock.Lock()
		defer lock.Unlock()
		seen = append(seen, fmt.Sprintf("%s %s %v", what, found.Name, found.Data))
	}
	registration, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { note("add", object) },
		UpdateFunc: func(_, object any) { note("update", object) },
		DeleteFunc: func(object any) { note("delete", object) },
	})
	must("register", err)
	factory.Start(p.ctx.Done())
	p.until("the informer is in sync", registration.HasSynced)
	_, err = maps.Create(p.ctx, configMap("after", map[string]string{"a": "1"}), metav1.CreateOptions{})
	must("create after", err)
	_, err = maps.Patch(p.ctx, "after", types.MergePatchType, []byte(`{"data":{"a":"2"}}`), metav1.PatchOptions{})
	must("patch", err)
	must("delete", maps.DeleteCollection(p.ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "by=go"}))
	p.until("five events have come", func() bool { lock.Lock(); defer lock.Unlock(); return len(seen) == 5 })
	sort.Strings(seen[3:])
	fmt.Println(strings.Join(seen, "\n"))
	left, err := informer.Lister().List(labels.Everything())
	must("list from the cache", err)
	fmt.Println("left in the cache:", len(left))
}

// leaders: of two candidates one leads; when it gives up, the other does.
func (p program) leaders() {
	events := make(chan string, 8)
	candidate := func(ctx context.Context, identity string) {
		lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, "leader",
			p.kube.CoreV1(), p.kube.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity})
		must("make a lock", err)
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true, LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { events <- identity + " leads" },
				OnStoppedLeading: func() { events <- identity + " has stopped" },
			},
		})
	}
	first, stopFirst := context.WithCancel(p.ctx)
	go candidate(first, "one")
	fmt.Println(<-events)
	second, stopSecond := context.WithCancel(p.ctx)
	go candidate(second, "two")
	stopFirst()
	fmt.Println(<-events)
	fmt.Println(<-events)
	lease, err := p.kube.CoordinationV1().Leases(namespace).Get(p.ctx, "leader", metav1.GetOptions{})
	must("get the lease", err)
	fmt.Println("held by", *lease.Spec.HolderIdentity, "after transitions:", *lease.Spec.LeaseTransitions > 0)
	stopSecond()
	fmt.Println(<-events)
}

// apply: two managers own parts of one object, conflict, and part.
func (p program) apply() {
	maps := p.kube.CoreV1().ConfigMaps(namespace)
	apply := func(manager string, force bool, data map[string]string) {
		wanted := corev1apply.ConfigMap("applied", namespace).WithData(data)
		_, err := maps.Apply(p.ctx, wanted, metav1.ApplyOptions{FieldManager: manager, Force: force})
		if err != nil {
			fmt.Println(manager, "is refused:", apierrors.IsConflict(err), err)
		}
	}
	apply("one", false, map[string]string{"a": "1", "b": "1"})
	apply("two", false, map[string]string{"b": "2", "c": "2"})
	apply("two", true, map[string]string{"b": "2", "c": "2"})
	apply("one", false, map[string]string{"a": "3"})
	object, err := maps.Get(p.ctx, "applied", metav1.GetOptions{})
	must("get", err)
	fmt.Println(object.Data)
	for _, entry := range object.ManagedFields {
		fmt.Println(entry.Manager, entry.Operation, entry.APIVersion, string(entry.FieldsV1.Raw))
	}
	extracted, err := corev1apply.ExtractConfigMap(object, "two")
	must("extract", err)
	text, err := json.Marshal(extracted)
	must("print", err)
	fmt.Println(string(text))
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// dynamic: a kind that the program does not know comes, is found by discovery, watched, and goes.
func (p program) dynamic() {
	client := dynamic.NewForConfigOrDie(p.config)
	definition := map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "gadgets.go.orangery.dev"},
		"spec": map[string]any{
			"group": "go.orangery.dev", "scope": "Namespaced",
			"names": map[string]any{"kind": "Gadget", "plural": "gadgets"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
					"spec":   map[string]any{"type": "object", "properties": map[string]any{"size": map[string]any{"type": "integer", "default": int64(3)}}},
					"status": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
				}}},
			}},
		},
	}
	_, err := client.Resource(definitions).Create(p.ctx, &unstructured.Unstructured{Object: definition}, metav1.CreateOptions{})
	must("define", err)
	gadget := schema.GroupKind{Group: "go.orangery.dev", Kind: "Gadget"}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(p.kube.Discovery()))
	var mapping *meta.RESTMapping
	p.until("the kind is discovered", func() bool {
		mapper.Reset()
		mapping, err = mapper.RESTMapping(gadget)
		return err == nil
	})
	fmt.Println(mapping.Resource, mapping.Scope.Name())
	gadgets := client.Resource(mapping.Resource).Namespace(namespace)
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, namespace, nil)
	lister := factory.ForResource(mapping.Resource).Lister()
	factory.Start(p.ctx.Done())
	factory.WaitForCacheSync(p.ctx.Done())
	made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "go.orangery.dev/v1", "kind": "Gadget", "metadata": map[string]any{"name": "g"}, "spec": map[string]any{}}}
	made, err = gadgets.Create(p.ctx, made, metav1.CreateOptions{})
	must("create a gadget", err)
	fmt.Println(made.Object["spec"])
	p.until("the informer has the gadget", func() bool { _, err := lister.Get(namespace + "/g"); return err == nil })
	must("set the status", unstructured.SetNestedField(made.Object, "good", "status", "state"))
	made, err = gadgets.UpdateStatus(p.ctx, made, metav1.UpdateOptions{})
	must("update the status", err)
	fmt.Println(made.Object["status"], made.GetGeneration())
	only, err := metadata.NewForConfigOrDie(p.config).Resource(mapping.Resource).Namespace(namespace).List(p.ctx, metav1.ListOptions{})
	must("list metadata", err)
	fmt.Println(only.Kind, len(only.Items), only.Items[0].Name)
	must("delete the definition", client.Resource(definitions).Delete(p.ctx, "gadgets.go.orangery.dev", metav1.DeleteOptions{}))
	p.until("the gadget is gone with its kind", func() bool { _, err := gadgets.Get(p.ctx, "g", metav1.GetOptions{}); return apierrors.IsNotFound(err) })
}

// pages: a list in pages is the list at one moment; a watch goes on from there, and an old version is gone.
func (p program) pages() {
	maps := p.kube.CoreV1().ConfigMaps(namespace)
	for number := range 25 {
		_, err := maps.Create(p.ctx, configMap(fmt.Sprintf("page-%02d", number), nil), metav1.CreateOptions{})
		must("create", err)
	}
	list := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (k8sobject, error) {
		options.LabelSelector = "by=go"
		return maps.List(p.ctx, options)
	}))
	list.PageSize = 10
	found, paged, err := list.List(p.ctx, metav1.ListOptions{})
	must("list in pages", err)
	fmt.Println("objects:", meta.LenList(found), "paged:", paged)
	accessor, err := meta.ListAccessor(found)
	must("read the list", err)
	watcher, err := toolswatch.NewRetryWatcherWithContext(p.ctx, accessor.GetResourceVersion(), &cache.ListWatch{
		WatchFunc: func(options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = "by=go"
			return maps.Watch(p.ctx, options)
		},
	})
	must("watch", err)
	must("delete", maps.Delete(p.ctx, "page-07", metav1.DeleteOptions{}))
	event := <-watcher.ResultChan()
	fmt.Println(event.Type, event.Object.(*corev1.ConfigMap).Name)
	watcher.Stop()
	yes := true
	stream, err := maps.Watch(p.ctx, metav1.ListOptions{
		LabelSelector: "by=go", SendInitialEvents: &yes, AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	must("watch with initial events", err)
	count := 0
	for event := range stream.ResultChan() {
		if event.Type == watch.Bookmark {
			fmt.Println("bookmark after", count, event.Object.(*corev1.ConfigMap).Annotations)
			break
		}
		count++
	}
	stream.Stop()
}

// conflicts: an old version is refused and a retry succeeds; preconditions hold.
func (p program) conflicts() {
	maps := p.kube.CoreV1().ConfigMaps(namespace)
	old, err := maps.Create(p.ctx, configMap("contested", nil), metav1.CreateOptions{})
	must("create", err)
	_, err = maps.Patch(p.ctx, "contested", types.JSONPatchType, []byte(`[{"op":"add","path":"/data","value":{"x":"y"}}]`), metav1.PatchOptions{})
	must("patch", err)
	_, err = maps.Update(p.ctx, old, metav1.UpdateOptions{})
	fmt.Println(apierrors.IsConflict(err), err)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := maps.Get(p.ctx, "contested", metav1.GetOptions{})
		must("get", err)
		now.Data["z"] = "1"
		_, err = maps.Update(p.ctx, now, metav1.UpdateOptions{})
		return err
	})
	must("retry", err)
	wrong := types.UID("wrong")
	err = maps.Delete(p.ctx, "contested", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}})
	fmt.Println(apierrors.IsConflict(err))
	_, err = maps.Create(p.ctx, configMap("contested", nil), metav1.CreateOptions{})
	fmt.Println(apierrors.IsAlreadyExists(err), err)
	_, err = maps.Create(p.ctx, configMap("Not A Name", nil), metav1.CreateOptions{})
	fmt.Println(apierrors.IsInvalid(err), err)
}

// tokens: a service account's token opens the door to what the account may do.
func (p program) tokens() {
	accounts := p.kube.CoreV1().ServiceAccounts(namespace)
	_, err := accounts.Create(p.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	must("create an account", err)
	token, err := accounts.CreateToken(p.ctx, "robot", tokenRequest(), metav1.CreateOptions{})
	must("ask for a token", err)
	config := rest.AnonymousClientConfig(p.config)
	config.BearerToken = token.Status.Token
	robot := kubernetes.NewForConfigOrDie(config)
	_, err = robot.CoreV1().ConfigMaps(namespace).List(p.ctx, metav1.ListOptions{})
	fmt.Println(apierrors.IsForbidden(err), err)
	review, err := robot.AuthenticationV1().SelfSubjectReviews().Create(p.ctx, selfReview(), metav1.CreateOptions{})
	must("review oneself", err)
	fmt.Println(review.Status.UserInfo.Username, review.Status.UserInfo.Groups)
	must("delete the account", accounts.Delete(p.ctx, "robot", metav1.DeleteOptions{}))
	p.until("the token is worth nothing", func() bool {
		_, err := robot.AuthenticationV1().SelfSubjectReviews().Create(p.ctx, selfReview(), metav1.CreateOptions{})
		return apierrors.IsUnauthorized(err)
	})
}

// workloads: a Deployment rolls out and is scaled by its subresource.
func (p program) workloads() {
	one := int32(1)
	selected := map[string]string{"app": "web"}
	deployments := p.kube.AppsV1().Deployments(namespace)
	_, err := deployments.Create(p.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &one,
			Selector: &metav1.LabelSelector{MatchLabels: selected},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selected},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
			},
		},
	}, metav1.CreateOptions{})
	must("create a deployment", err)
	available := func(count int32) func() bool {
		return func() bool {
			found, err := deployments.Get(p.ctx, "web", metav1.GetOptions{})
			return err == nil && found.Status.AvailableReplicas == count
		}
	}
	p.until("one pod is available", available(1))
	scale, err := deployments.GetScale(p.ctx, "web", metav1.GetOptions{})
	must("get the scale", err)
	scale.Spec.Replicas = 2
	scale, err = deployments.UpdateScale(p.ctx, "web", scale, metav1.UpdateOptions{})
	must("scale", err)
	fmt.Println(scale.Spec.Replicas, scale.Status.Selector)
	p.until("two pods are available", available(2))
}

package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	controllerManager = "kube-controller-manager"
	cloudConfigFolder = "/etc/kubernetes/cloudprovider"
	webhookPath       = "/controlplane"
	webhookConfig     = "gardener-extension-" + extensionName
	mutatedLabel      = "provider.extensions.gardener.cloud/mutated-by-controlplane-webhook"

	certificateEvery      = 5 * time.Minute
	certificateRetryEvery = time.Second
	startedEvery          = 100 * time.Millisecond
)

// cloudFlags of Example 2 of Gardener's overview.
var cloudFlags = []string{
	"--cloud-provider=external",
	"--external-cloud-volume-plugin=aws",
	"--cloud-config=" + cloudConfigFolder + "/" + cloudConfigKey,
}

// addCloudConfig adds flags, volume and mount to the Deployment of kube-controller-manager. It changes nothing that is
// so already: an object may come by more than once.
func addCloudConfig(deployment *appsv1.Deployment) {
	pod := &deployment.Spec.Template.Spec
	at := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == controllerManager })
	if deployment.Name != controllerManager || at < 0 {
		return
	}
	container := &pod.Containers[at]
	for _, flag := range cloudFlags {
		name, _, _ := strings.Cut(flag, "=")
		set := func(word string) bool { return word == name || strings.HasPrefix(word, name+"=") }
		container.Command = append(slices.DeleteFunc(container.Command, set), flag)
	}
	mount := corev1.VolumeMount{Name: cloudConfigName, MountPath: cloudConfigFolder}
	ours := func(m corev1.VolumeMount) bool { return m.Name == cloudConfigName }
	container.VolumeMounts = append(slices.DeleteFunc(container.VolumeMounts, ours), mount)

	source := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: cloudConfigName}}
	volume := corev1.Volume{Name: cloudConfigName, VolumeSource: corev1.VolumeSource{ConfigMap: source}}
	if i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == cloudConfigName }); i >= 0 {
		pod.Volumes[i].VolumeSource.ConfigMap = withName(pod.Volumes[i].ConfigMap)
	} else {
		pod.Volumes = append(pod.Volumes, volume)
	}
}

// withName leads a volume to the ConfigMap and leaves what the API server has defaulted.
func withName(source *corev1.ConfigMapVolumeSource) *corev1.ConfigMapVolumeSource {
	if source == nil {
		source = &corev1.ConfigMapVolumeSource{}
	}
	source.Name = cloudConfigName
	return source
}

// mutate answers one request of an API server.
func mutate(_ context.Context, request admission.Request) admission.Response {
	var deployment appsv1.Deployment
	if err := json.Unmarshal(request.Object.Raw, &deployment); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	addCloudConfig(&deployment)
	after, err := json.Marshal(&deployment)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, after)
}

// webhooks keep the certificate of the webhook server, and the configuration by which the API server of the seed calls
// it. Every replica serves, so that each of them does this.
type webhooks struct {
	client.Client
	namespace, service, url, provider string
	server                            webhook.Server
	certificate                       atomic.Pointer[tls.Certificate]
}

// NeedLeaderElection is no: every replica serves.
func (w *webhooks) NeedLeaderElection() bool { return false }

// host is what the certificate is for.
func (w *webhooks) host() string {
	if parsed, err := url.Parse(w.url); err == nil && parsed.Hostname() != "" {
		return parsed.Hostname()
	}
	return w.service + "." + w.namespace + ".svc"
}

func (w *webhooks) clientConfig(authority []byte) admissionv1.WebhookClientConfig {
	path, port := webhookPath, int32(443)
	if w.url != "" {
		address := strings.TrimSuffix(w.url, "/") + path
		return admissionv1.WebhookClientConfig{URL: &address, CABundle: authority}
	}
	service := &admissionv1.ServiceReference{Namespace: w.namespace, Name: w.service, Path: &path, Port: &port}
	return admissionv1.WebhookClientConfig{Service: service, CABundle: authority}
}

// load is done before the server starts: it needs a certificate.
func (w *webhooks) load(ctx context.Context) (authority []byte, err error) {
	pair, authority, err := ensureCertificate(ctx, w.Client, w.namespace, w.host())
	if err == nil {
		w.certificate.Store(pair)
	}
	return authority, err
}

func (w *webhooks) serve(config *tls.Config) {
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return w.certificate.Load(), nil }
}

// Start keeps both until the context ends. Nothing is registered before the server answers.
func (w *webhooks) Start(ctx context.Context) error {
	started := func(context.Context) (bool, error) { return w.server.StartedChecker()(nil) == nil, nil }
	if err := wait.PollUntilContextCancel(ctx, startedEvery, true, started); err != nil {
		return nil // the program ends
	}
	for {
		pause := certificateEvery
		if err := w.keep(ctx); err != nil {
			ctrl.Log.Error(err, "the webhook is not registered")
			pause = certificateRetryEvery
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

func (w *webhooks) keep(ctx context.Context) error {
	authority, err := w.load(ctx)
	if err != nil {
		return err
	}
	// It goes with the namespace of the installation.
	var namespace corev1.Namespace
	if err := w.Get(ctx, client.ObjectKey{Name: w.namespace}, &namespace); err != nil {
		return err
	}
	config := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhookConfig}}
	_, err = controllerutil.CreateOrUpdate(ctx, w.Client, config, func() error {
		config.Webhooks = []admissionv1.MutatingWebhook{w.wanted(authority)}
		return controllerutil.SetOwnerReference(&namespace, config, w.Scheme())
	})
	return err
}

func (w *webhooks) wanted(authority []byte) admissionv1.MutatingWebhook {
	seconds := int32(10)
	policy, match, effects := admissionv1.Fail, admissionv1.Exact, admissionv1.SideEffectClassNone
	never := admissionv1.NeverReinvocationPolicy
	scope := admissionv1.NamespacedScope
	return admissionv1.MutatingWebhook{
		Name:         "controlplane." + typeName + ".extensions.gardener.cloud",
		ClientConfig: w.clientConfig(authority),
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule: admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"},
				Resources: []string{"deployments"}, Scope: &scope},
		}},
		// Shoots of the provider that have this extension: for others there is no ConfigMap.
		NamespaceSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "shoot.gardener.cloud/provider", Operator: metav1.LabelSelectorOpIn, Values: []string{w.provider}},
				{Key: "extensions.gardener.cloud/" + typeName, Operator: metav1.LabelSelectorOpIn, Values: []string{"true"}},
			},
		},
		ObjectSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{mutatedLabel: "true"}},
		FailurePolicy:           &policy,
		MatchPolicy:             &match,
		SideEffects:             &effects,
		TimeoutSeconds:          &seconds,
		ReinvocationPolicy:      &never,
		AdmissionReviewVersions: []string{"v1"},
	}
}

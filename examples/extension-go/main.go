// Program extension-go is an extension of Gardener, written against its API alone: it serves Extension and
// OperatingSystemConfig of type example-go, and a webhook that changes the control planes of Shoots.
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const extensionName = "extension-go"

// startTimeout is for the API server to be reached before the program gives up and is started again.
const startTimeout = 30 * time.Second

type options struct {
	namespace, service, url, provider, release, health, metrics string
	webhookPort                                                 int
}

func parse() options {
	var o options
	flag.StringVar(&o.namespace, "namespace", os.Getenv("NAMESPACE"), "where the extension is installed")
	flag.StringVar(&o.service, "webhook-service", extensionName, "the Service that leads to the webhook")
	flag.StringVar(&o.url, "webhook-url", "", "where the API server reaches the webhook instead, outside of a pod")
	flag.StringVar(&o.provider, "webhook-provider", "local", "whose Shoots the webhook changes")
	flag.IntVar(&o.webhookPort, "webhook-port", 10250, "where the webhook listens")
	flag.StringVar(&o.health, "health-address", ":8081", "where probes are answered")
	flag.StringVar(&o.metrics, "metrics-address", ":8080", "where metrics are served; 0 for nowhere")
	flag.StringVar(&o.release, "release", "1", "the release of the operating system")
	flag.Parse()
	return o
}

func main() {
	o := parse()
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		ctrl.Log.Error(err, "the extension ends")
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	addToScheme(scheme)
	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	hooks := &webhooks{Client: direct, namespace: o.namespace, service: o.service, url: o.url, provider: o.provider}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if _, err := hooks.load(starting); err != nil {
		return err
	}
	server := webhook.NewServer(webhook.Options{Port: o.webhookPort, TLSOpts: []func(*tls.Config){hooks.serve}})
	hooks.server = server
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		HealthProbeBindAddress:        o.health,
		Metrics:                       metricsserver.Options{BindAddress: o.metrics},
		WebhookServer:                 server,
		LeaderElection:                true,
		LeaderElectionID:              extensionName + "-leader-election",
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true,
		// Few of a seed's Secrets and ConfigMaps are read: none of them are cached.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{
			&corev1.Secret{}, &corev1.ConfigMap{},
		}}},
	})
	if err != nil {
		return err
	}
	if err := add(manager, o, hooks); err != nil {
		return err
	}
	return manager.Start(ctx)
}

func add(m manager.Manager, o options, hooks *webhooks) error {
	c := m.GetClient()
	reconcilers := []*reconciler{
		{c, m.GetAPIReader(), "Extension", func() object { return &Extension{} }, extensions{c}},
		{c, m.GetAPIReader(), "OperatingSystemConfig", func() object { return &OperatingSystemConfig{} },
			operatingSystems{c, o.release}},
	}
	for _, r := range reconcilers {
		if err := r.setup(m); err != nil {
			return err
		}
	}
	for _, r := range []manager.Runnable{heartbeat{hooks.Client, o.namespace}, hooks} {
		if err := m.Add(r); err != nil {
			return err
		}
	}
	// The manager starts its server once it has been asked for.
	m.GetWebhookServer().Register(webhookPath, &webhook.Admission{Handler: admission.HandlerFunc(mutate)})
	if err := m.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	return m.AddReadyzCheck("webhook", hooks.server.StartedChecker())
}

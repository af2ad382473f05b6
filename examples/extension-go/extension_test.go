package main

import (
	"crypto/x509"
	"encoding/pem"
	"reflect"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestWebhookAddsFlagsVolumeAndMountOnce(t *testing.T) {
	deployment := &appsv1.Deployment{}
	deployment.Name = controllerManager
	deployment.Spec.Template.Spec.Containers = []corev1.Container{
		{Name: "other"},
		{Name: controllerManager, Command: []string{"/bin/kcm", "--cloud-provider", "--v=2"}},
	}
	addCloudConfig(deployment)
	once := deployment.DeepCopy()
	addCloudConfig(deployment)
	if !reflect.DeepEqual(once, deployment) {
		t.Fatalf("the second call changes something: %v", deployment)
	}
	pod := deployment.Spec.Template.Spec
	want := append([]string{"/bin/kcm", "--v=2"}, cloudFlags...)
	if got := pod.Containers[1].Command; !slices.Equal(got, want) {
		t.Errorf("command is %v", got)
	}
	if len(pod.Volumes) != 1 || len(pod.Containers[1].VolumeMounts) != 1 || pod.Containers[0].VolumeMounts != nil {
		t.Errorf("volumes are %v, containers %v", pod.Volumes, pod.Containers)
	}
}

func TestWebhookLeavesOtherDeploymentsAlone(t *testing.T) {
	deployment := &appsv1.Deployment{}
	deployment.Name = "kube-scheduler"
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: controllerManager}}
	before := deployment.DeepCopy()
	addCloudConfig(deployment)
	if !reflect.DeepEqual(before, deployment) {
		t.Errorf("it is now %v", deployment)
	}
}

func TestCertificateIsItsOwnAuthority(t *testing.T) {
	for _, host := range []string{"a.b.svc", "127.0.0.1"} {
		verifyCertificate(t, host)
	}
}

func verifyCertificate(t *testing.T, host string) {
	certificate, key, err := selfSigned(host)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{Data: map[string][]byte{"tls.crt": certificate, "tls.key": key}}
	if usable(secret, host) == nil || usable(secret, "other.svc") != nil || usable(&corev1.Secret{}, host) != nil {
		t.Error("a certificate is usable for its host alone")
	}
	block, _ := pem.Decode(certificate)
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	if _, err := parsed.Verify(x509.VerifyOptions{DNSName: host, Roots: roots}); err != nil {
		t.Error(err)
	}
}

func TestOperationFollowsAnnotationDeletionAndLastOperation(t *testing.T) {
	deleted := metav1.NewTime(time.Now())
	for _, c := range []struct {
		annotation string
		deleted    *metav1.Time
		last       *LastOperation
		want       string
	}{
		{"", nil, nil, opCreate},
		{"wait-for-state", nil, nil, ""},
		{"migrate", &deleted, nil, opMigrate},
		{"reconcile", &deleted, nil, opDelete},
		{"restore", nil, nil, opRestore},
		{"reconcile", nil, &LastOperation{Type: opCreate, State: stateError}, opCreate},
		{"reconcile", nil, &LastOperation{Type: opCreate, State: stateSucceeded}, opReconcile},
		{"", nil, &LastOperation{Type: opReconcile, State: stateProcessing}, opReconcile},
		{"", nil, &LastOperation{Type: opReconcile, State: stateSucceeded}, ""},
		{"reconcile", nil, &LastOperation{Type: opMigrate, State: stateSucceeded}, ""},
	} {
		o := &Extension{}
		o.Annotations = map[string]string{annotationOperation: c.annotation}
		o.DeletionTimestamp, o.Finalizers, o.Status.LastOperation = c.deleted, []string{finalizer}, c.last
		if got := operationOf(o); got != c.want {
			t.Errorf("%v: %q", c, got)
		}
	}
}

func TestBadProviderConfigIsTheUsersProblem(t *testing.T) {
	for config, want := range map[string]string{`{}`: vpcDefault, `{"vpc":"vpc-1"}`: "vpc-1", `{"vpc":"x"}`: "", `{"vpc":1}`: ""} {
		got, err := vpcOf(&Spec{ProviderConfig: &runtime.RawExtension{Raw: []byte(config)}})
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", config, got, err)
		}
	}
}

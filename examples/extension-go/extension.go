package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	cloudConfigName = typeName + "-cloud-config"
	cloudConfigKey  = "cloudprovider.conf"
	vpcDefault      = "vpc-1234"
)

var vpcName = regexp.MustCompile(`^vpc-[a-z0-9]+$`)

// extensions keep the cloud config that the webhook mounts into kube-controller-manager. It is there before
// kube-apiserver and goes after it (see registration.yaml), so that it is there whenever the Deployment is.
type extensions struct{ client.Client }

func (a extensions) reconcile(ctx context.Context, o object) error {
	spec, _ := o.common()
	vpc, err := vpcOf(spec)
	if err != nil {
		return configurationProblem{err}
	}
	config := cloudConfig(o.GetNamespace())
	_, err = controllerutil.CreateOrUpdate(ctx, a.Client, config, func() error {
		config.Data = map[string]string{cloudConfigKey: fmt.Sprintf("[Global]\nVPC=%s\n", vpc)}
		return nil
	})
	return err
}

func (a extensions) remove(ctx context.Context, o object) error {
	return client.IgnoreNotFound(a.Delete(ctx, cloudConfig(o.GetNamespace())))
}

func cloudConfig(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: cloudConfigName, Namespace: namespace}}
}

// vpcOf reads what the user of the Shoot wrote into providerConfig.
func vpcOf(spec *Spec) (string, error) {
	var config struct {
		VPC string `json:"vpc"`
	}
	if spec.ProviderConfig != nil {
		if err := json.Unmarshal(spec.ProviderConfig.Raw, &config); err != nil {
			return "", fmt.Errorf("providerConfig cannot be read: %w", err)
		}
	}
	if config.VPC == "" {
		return vpcDefault, nil
	}
	if !vpcName.MatchString(config.VPC) {
		return "", fmt.Errorf("providerConfig.vpc is %q: it has to match %s", config.VPC, vpcName)
	}
	return config.VPC, nil
}

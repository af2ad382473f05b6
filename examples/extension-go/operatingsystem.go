package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	userDataKey = "cloud_config"
	releasePath = "/etc/" + typeName + "-release"
)

// operatingSystems write user data for machines that are about to be created, and add a file to those that run.
type operatingSystems struct {
	client.Client
	release string
}

func (a operatingSystems) reconcile(ctx context.Context, o object) error {
	config := o.(*OperatingSystemConfig)
	switch config.Spec.Purpose {
	case "provision":
		return a.provision(ctx, config)
	case "reconcile":
		mode := uint32(0o644)
		text := fmt.Sprintf("ID=%s\nVERSION=%s\n", typeName, a.release)
		content := FileContent{Inline: &Inline{Data: text}}
		config.Status.ExtensionFiles = []File{{Path: releasePath, Permissions: &mode, Content: content}}
		return nil
	default:
		return configurationProblem{fmt.Errorf("purpose %q is not known", config.Spec.Purpose)}
	}
}

func (a operatingSystems) remove(ctx context.Context, o object) error {
	return client.IgnoreNotFound(a.Delete(ctx, userData(o)))
}

func userData(o object) *corev1.Secret {
	name := "osc-result-" + o.GetName()
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: o.GetNamespace()}}
}

func (a operatingSystems) provision(ctx context.Context, config *OperatingSystemConfig) error {
	script, err := a.script(ctx, config)
	if err != nil {
		return err
	}
	secret := userData(config)
	if _, err := controllerutil.CreateOrUpdate(ctx, a.Client, secret, func() error {
		secret.Data = map[string][]byte{userDataKey: []byte(script)}
		return nil
	}); err != nil {
		return err
	}
	config.Status.CloudConfig = &CloudConfig{corev1.SecretReference{Name: secret.Name, Namespace: secret.Namespace}}
	return nil
}

// script is what a machine runs at its first start.
func (a operatingSystems) script(ctx context.Context, config *OperatingSystemConfig) (string, error) {
	lines := []string{"#!/bin/bash"}
	write := func(path_ string, permissions *uint32, content string) {
		lines = append(lines, fmt.Sprintf("mkdir -p %q", path.Dir(path_)),
			fmt.Sprintf("cat << EOF | base64 -d > %q\n%s\nEOF", path_, content))
		if permissions != nil {
			lines = append(lines, fmt.Sprintf("chmod %q %q", fmt.Sprintf("%04o", *permissions), path_))
		}
	}
	for _, file := range config.Spec.Files {
		content, err := a.content(ctx, config.Namespace, &file)
		if err != nil {
			return "", err
		}
		write(file.Path, file.Permissions, content)
	}
	for _, unit := range config.Spec.Units {
		unitPath := "/etc/systemd/system/" + unit.Name
		if unit.Content != nil {
			write(unitPath, nil, encoded(*unit.Content))
		}
		for _, dropIn := range unit.DropIns {
			write(unitPath+".d/"+dropIn.Name, nil, encoded(dropIn.Content))
		}
	}
	lines = append(lines, "systemctl daemon-reload")
	for _, unit := range config.Spec.Units {
		if unit.Enable == nil || *unit.Enable {
			lines = append(lines, fmt.Sprintf("systemctl enable '%s'", unit.Name))
		}
		command := "restart"
		if unit.Command != nil {
			command = *unit.Command
		}
		lines = append(lines, fmt.Sprintf("systemctl %s '%s'", command, unit.Name))
	}
	return strings.Join(lines, "\n") + "\n", nil
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// content of a file in base64.
func (a operatingSystems) content(ctx context.Context, namespace string, file *File) (string, error) {
	switch inline, reference := file.Content.Inline, file.Content.SecretRef; {
	case inline != nil && inline.Encoding == "":
		return encoded(inline.Data), nil
	case inline != nil && inline.Encoding == "b64":
		if _, err := base64.StdEncoding.DecodeString(inline.Data); err != nil {
			return "", configurationProblem{fmt.Errorf("file %s: %w", file.Path, err)}
		}
		return inline.Data, nil
	case reference != nil:
		var secret corev1.Secret
		if err := a.Get(ctx, client.ObjectKey{Namespace: namespace, Name: reference.Name}, &secret); err != nil {
			return "", fmt.Errorf("file %s: %w", file.Path, err)
		}
		content, found := secret.Data[reference.DataKey]
		if !found {
			return "", fmt.Errorf("file %s: Secret %s has no key %s", file.Path, reference.Name, reference.DataKey)
		}
		return base64.StdEncoding.EncodeToString(content), nil
	default:
		return "", configurationProblem{fmt.Errorf("file %s: its content is of no known form", file.Path)}
	}
}

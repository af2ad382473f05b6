package main

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	heartbeatName  = "gardener-extension-heartbeat"
	heartbeatEvery = 30 * time.Second
)

// heartbeat renews the Lease by which gardenlet knows that the extension is alive. Only the leader does.
type heartbeat struct {
	client.Client
	namespace string
}

// Start runs until the context ends.
func (h heartbeat) Start(ctx context.Context) error {
	ticker := time.NewTicker(heartbeatEvery)
	defer ticker.Stop()
	for {
		if err := h.renew(ctx); err != nil {
			ctrl.Log.Error(err, "the heartbeat is not renewed")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (h heartbeat) renew(ctx context.Context) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: heartbeatName, Namespace: h.namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, h.Client, lease, func() error {
		name, seconds, now := extensionName, int32(heartbeatEvery/time.Second), metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &name, &seconds, &now
		return nil
	})
	return err
}

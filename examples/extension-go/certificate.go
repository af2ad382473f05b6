package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	certificateSecret   = extensionName + "-webhook"
	certificateValidity = 30 * 24 * time.Hour
	// One that ends sooner is replaced.
	certificateLeft = certificateValidity / 3
)

// ensureCertificate is the certificate that all replicas of this extension share: of the Secret if it is good for a
// while, else a new one. The certificate in PEM is its own authority.
func ensureCertificate(ctx context.Context, c client.Client, namespace, host string) (*tls.Certificate, []byte, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: certificateSecret, Namespace: namespace}}
	err := c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, err
	}
	missing := apierrors.IsNotFound(err)
	if pair := usable(secret, host); pair != nil {
		return pair, secret.Data[corev1.TLSCertKey], nil
	}
	certificate, key, err := selfSigned(host)
	if err != nil {
		return nil, nil, err
	}
	secret.Type = corev1.SecretTypeTLS
	secret.Data = map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key}
	if missing {
		err = c.Create(ctx, secret)
	} else {
		err = c.Update(ctx, secret)
	}
	// Where another replica was faster, this one tries again and finds what that one wrote.
	if err != nil {
		return nil, nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	return &pair, certificate, err
}

func usable(secret *corev1.Secret, host string) *tls.Certificate {
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil || time.Now().Add(certificateLeft).After(pair.Leaf.NotAfter) || pair.Leaf.VerifyHostname(host) != nil {
		return nil
	}
	return &pair
}

// selfSigned is what `openssl req -x509 -newkey ec -subj /CN=HOST -addext subjectAltName=DNS:HOST` creates: one
// certificate that serves and is the authority by which it is verified.
func selfSigned(host string) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: host},
		NotBefore:             now.Add(-time.Minute),
		NotAfter:              now.Add(certificateValidity),
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	if address := net.ParseIP(host); address != nil {
		template.IPAddresses = []net.IP{address}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, fmt.Errorf("sign the certificate: %w", err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}

package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// inspection is what has been found in a text so far.
type inspection struct {
	out          strings.Builder
	certificates []*x509.Certificate
}

// inspected says what a text of keys, certificates, passwords and ciphers holds, but for what is random: two texts that
// say the same are as good as each other. What is nothing of these stands as it is.
func inspected(text []byte) ([]byte, error) {
	found := &inspection{}
	for len(text) > 0 {
		if bytes.HasPrefix(text, []byte("-----BEGIN ")) {
			block, rest := pem.Decode(text)
			if block == nil {
				return nil, fmt.Errorf("no PEM: %q", text)
			}
			if string(pem.EncodeToMemory(block)) != string(text[:len(text)-len(rest)]) {
				fmt.Fprintf(&found.out, "not as Go writes it: ")
			}
			if err := found.block(block); err != nil {
				return nil, err
			}
			text = rest
			continue
		}
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		found.line(string(line))
		text = rest
	}
	return []byte(found.out.String()), nil
}

// line is one that begins with `bcrypt` and a password, or with `aes`, a password and a plain text, or any other.
func (found *inspection) line(line string) {
	words := strings.Split(line, " ")
	switch {
	case words[0] == "bcrypt" && len(words) == 3:
		cost, costErr := bcrypt.Cost([]byte(words[2]))
		fmt.Fprintf(&found.out, "bcrypt of %q: %v, cost %d %v, %d bytes, %s\n", words[1],
			bcrypt.CompareHashAndPassword([]byte(words[2]), []byte(words[1])), cost, costErr, len(words[2]), words[2][:4])
	case words[0] == "aes" && len(words) == 3:
		plain, err := decrypted(words[1], words[2])
		fmt.Fprintf(&found.out, "aes by %q: %q %v, %d letters\n", words[1], plain, err, len(words[2]))
	default:
		fmt.Fprintf(&found.out, "%s\n", line)
	}
}

// decrypted is what Sprig's function says.
func decrypted(password, text string) (string, error) {
	decrypt := functions()["decryptAES"].(func(string, string) (string, error))
	return decrypt(password, text)
}

func (found *inspection) block(block *pem.Block) error {
	if block.Type == "CERTIFICATE" {
		return found.certificate(block.Bytes)
	}
	var key any
	var err error
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	default:
		fmt.Fprintf(&found.out, "%s of %d bytes\n", block.Type, len(block.Bytes))
		return nil
	}
	if err != nil {
		return err
	}
	public := key.(crypto.Signer).Public()
	fmt.Fprintf(&found.out, "%s: %s%s\n", block.Type, kind(public), found.whose(public))
	return nil
}

func kind(public any) string {
	switch public := public.(type) {
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA of %d bits, exponent %d", public.N.BitLen(), public.E)
	case *ecdsa.PublicKey:
		return "ECDSA on " + public.Params().Name
	case ed25519.PublicKey:
		return "Ed25519"
	}
	return fmt.Sprintf("%T", public)
}

func (found *inspection) whose(public any) string {
	text := ""
	for at, certificate := range found.certificates {
		if certificate.PublicKey.(interface{ Equal(crypto.PublicKey) bool }).Equal(public) {
			text += fmt.Sprintf(", of certificate %d", at+1)
		}
	}
	return text
}

func (found *inspection) certificate(raw []byte) error {
	read, err := x509.ParseCertificate(raw)
	if err != nil {
		return err
	}
	found.certificates = append(found.certificates, read)
	out := &found.out
	fmt.Fprintf(out, "certificate %d version %d for %q (%x) from %q, %s by %s\n", len(found.certificates), read.Version,
		read.Subject, read.RawSubject, read.Issuer, kind(read.PublicKey), read.SignatureAlgorithm)
	fmt.Fprintf(out, "  valid for %s in %s, serial positive %t and short %t\n", read.NotAfter.Sub(read.NotBefore),
		read.NotBefore.Location(), read.SerialNumber.Sign() > 0, read.SerialNumber.BitLen() <= 128)
	fmt.Fprintf(out, "  names %q addresses %v usage %b purposes %v authority %t %t path %d %t\n", read.DNSNames,
		read.IPAddresses, read.KeyUsage, read.ExtKeyUsage, read.BasicConstraintsValid, read.IsCA, read.MaxPathLen,
		read.MaxPathLenZero)
	for _, extension := range read.Extensions {
		fmt.Fprintf(out, "  extension %s critical %t", extension.Id, extension.Critical)
		switch extension.Id.String() {
		case "2.5.29.14", "2.5.29.35":
			fmt.Fprintf(out, " of %d bytes\n", len(extension.Value))
		default:
			fmt.Fprintf(out, " %x\n", extension.Value)
		}
	}
	for at, by := range found.certificates {
		signed := by.CheckSignature(read.SignatureAlgorithm, read.RawTBSCertificate, read.Signature) == nil
		fmt.Fprintf(out, "  signed by %d: %t, names its key: %t\n", at+1, signed,
			bytes.Equal(read.AuthorityKeyId, by.SubjectKeyId))
	}
	return nil
}

package main

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// k8sobject is what a page is.
type k8sobject = runtime.Object

func tokenRequest() *authenticationv1.TokenRequest { return &authenticationv1.TokenRequest{} }

func selfReview() *authenticationv1.SelfSubjectReview { return &authenticationv1.SelfSubjectReview{} }

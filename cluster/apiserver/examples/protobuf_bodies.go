// Writes tests/it/protobuf_bodies.json: bodies as Go's typed clients send them in protobuf, each beside the JSON that the
// same clients send for the same object. Run in a folder of its own with this file as main.go:
//
//	go mod init bodies
//	go get k8s.io/api@v0.35.4 k8s.io/apiextensions-apiserver@v0.35.4 k8s.io/kube-aggregator@v0.35.4
//	go run . > protobuf_bodies.json
//
// The committed file has the same content, one JSON text per line.
package main

import (
	"bytes"
	"encoding/json"
	"os"

	admission "k8s.io/api/admissionregistration/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	registration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

type body struct {
	JSON     json.RawMessage `json:"json"`
	Protobuf []byte          `json:"protobuf"`
}

func to[T any](value T) *T { return &value }

func main() {
	scheme := runtime.NewScheme()
	must(admission.AddToScheme(scheme))
	must(extensions.AddToScheme(scheme))
	must(registration.AddToScheme(scheme))
	serializer := protobuf.NewSerializer(scheme, scheme)
	var bodies []body
	for _, object := range []runtime.Object{
		validatingWebhooks(), mutatingWebhooks(), policy(), policyBinding(), apiService(), localAPIService(),
		greetings(), corners(),
	} {
		kinds, _, err := scheme.ObjectKinds(object)
		must(err)
		object.GetObjectKind().SetGroupVersionKind(kinds[0])
		var packed bytes.Buffer
		must(serializer.Encode(object, &packed))
		text, err := json.Marshal(object)
		must(err)
		bodies = append(bodies, body{JSON: text, Protobuf: packed.Bytes()})
	}
	printer := json.NewEncoder(os.Stdout)
	printer.SetEscapeHTML(false)
	printer.SetIndent("", " ")
	must(printer.Encode(bodies))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func rules(operations ...admission.OperationType) []admission.RuleWithOperations {
	return []admission.RuleWithOperations{{
		Operations: operations,
		Rule: admission.Rule{
			APIGroups:   []string{"", "apps"},
			APIVersions: []string{"v1"},
			Resources:   []string{"secrets", "deployments"},
			Scope:       to(admission.NamespacedScope),
		},
	}}
}

// What an extension's webhooks look like: a service without a port, an empty namespace selector, a policy that is set.
func validatingWebhooks() runtime.Object {
	return &admission.ValidatingWebhookConfiguration{
		ObjectMeta: meta.ObjectMeta{Name: "extension", Labels: map[string]string{"a": "b"}},
		Webhooks: []admission.ValidatingWebhook{{
			Name: "first.example.com",
			ClientConfig: admission.WebhookClientConfig{
				Service:  &admission.ServiceReference{Namespace: "n", Name: "s", Path: to("/check")},
				CABundle: []byte("not a certificate"),
			},
			Rules:                   rules(admission.Create, admission.Update),
			FailurePolicy:           to(admission.Ignore),
			MatchPolicy:             to(admission.Exact),
			NamespaceSelector:       &meta.LabelSelector{},
			ObjectSelector:          &meta.LabelSelector{MatchLabels: map[string]string{"x": "y"}},
			SideEffects:             to(admission.SideEffectClassNone),
			TimeoutSeconds:          to(int32(10)),
			AdmissionReviewVersions: []string{"v1", "v1beta1"},
			MatchConditions:         []admission.MatchCondition{{Name: "c.example.com", Expression: "true"}},
		}},
	}
}

func mutatingWebhooks() runtime.Object {
	return &admission.MutatingWebhookConfiguration{
		ObjectMeta: meta.ObjectMeta{Name: "extension"},
		Webhooks: []admission.MutatingWebhook{{
			Name: "second.example.com",
			ClientConfig: admission.WebhookClientConfig{
				Service: &admission.ServiceReference{Namespace: "n", Name: "s", Port: to(int32(8443))},
			},
			Rules: rules(admission.OperationAll),
			NamespaceSelector: &meta.LabelSelector{MatchExpressions: []meta.LabelSelectorRequirement{
				{Key: "provider", Operator: meta.LabelSelectorOpIn, Values: []string{"local"}},
				{Key: "off", Operator: meta.LabelSelectorOpDoesNotExist},
			}},
			SideEffects:             to(admission.SideEffectClassNoneOnDryRun),
			AdmissionReviewVersions: []string{"v1"},
			ReinvocationPolicy:      to(admission.IfNeededReinvocationPolicy),
		}, {
			Name:                    "third.example.com",
			ClientConfig:            admission.WebhookClientConfig{URL: to("https://example.com/mutate")},
			Rules:                   rules(admission.Delete, admission.Connect),
			SideEffects:             to(admission.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

func resources() *admission.MatchResources {
	return &admission.MatchResources{
		ResourceRules: []admission.NamedRuleWithOperations{{
			ResourceNames:      []string{"one"},
			RuleWithOperations: rules(admission.Create)[0],
		}},
	}
}

func policy() runtime.Object {
	return &admission.ValidatingAdmissionPolicy{
		ObjectMeta: meta.ObjectMeta{Name: "policy"},
		Spec: admission.ValidatingAdmissionPolicySpec{
			ParamKind:        &admission.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
			MatchConstraints: resources(),
			Validations: []admission.Validation{{
				Expression:        "variables.size < 5",
				Reason:            to(meta.StatusReasonForbidden),
				MessageExpression: "'too many'",
			}},
			FailurePolicy:    to(admission.Fail),
			AuditAnnotations: []admission.AuditAnnotation{{Key: "size", ValueExpression: "string(variables.size)"}},
			MatchConditions:  []admission.MatchCondition{{Name: "all", Expression: "true"}},
			Variables:        []admission.Variable{{Name: "size", Expression: "size(object.metadata.name)"}},
		},
	}
}

func policyBinding() runtime.Object {
	return &admission.ValidatingAdmissionPolicyBinding{
		ObjectMeta: meta.ObjectMeta{Name: "binding"},
		Spec: admission.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "policy",
			ParamRef: &admission.ParamRef{
				Selector:                &meta.LabelSelector{},
				ParameterNotFoundAction: to(admission.AllowAction),
			},
			MatchResources:    resources(),
			ValidationActions: []admission.ValidationAction{admission.Warn, admission.Audit},
		},
	}
}

func apiService() runtime.Object {
	return &registration.APIService{
		ObjectMeta: meta.ObjectMeta{Name: "v1.example.com"},
		Spec: registration.APIServiceSpec{
			Service:              &registration.ServiceReference{Namespace: "n", Name: "s", Port: to(int32(443))},
			Group:                "example.com",
			Version:              "v1",
			CABundle:             []byte("bundle"),
			GroupPriorityMinimum: 1000,
			VersionPriority:      15,
		},
	}
}

// Priorities of zero are refused, and a refusal names the value.
func localAPIService() runtime.Object {
	return &registration.APIService{
		ObjectMeta: meta.ObjectMeta{Name: "v1.zero.example.com"},
		Spec:       registration.APIServiceSpec{Group: "zero.example.com", Version: "v1"},
	}
}

func raw(text string) *extensions.JSON { return &extensions.JSON{Raw: []byte(text)} }

// A version that is not served and one that is not stored: both are false, and both are required.
func greetings() runtime.Object {
	schema := &extensions.CustomResourceValidation{OpenAPIV3Schema: &extensions.JSONSchemaProps{
		Type: "object",
		Properties: map[string]extensions.JSONSchemaProps{
			"spec": {
				Type:     "object",
				Required: []string{"text"},
				Default:  raw(`{"text":"hello","times":1.5}`),
				Properties: map[string]extensions.JSONSchemaProps{
					"text": {Type: "string", MinLength: to(int64(0)), MaxLength: to(int64(10)), Pattern: "^[a-z]*$",
						Enum: []extensions.JSON{*raw(`"hello"`), *raw(`""`)}},
					"times": {Type: "number", Minimum: to(0.0), Maximum: to(10.0), MultipleOf: to(0.5),
						ExclusiveMaximum: true},
					"port": {XIntOrString: true, AnyOf: []extensions.JSONSchemaProps{
						{Type: "integer"}, {Type: "string"}}},
					"names": {
						Type:         "array",
						Items:        &extensions.JSONSchemaPropsOrArray{Schema: &extensions.JSONSchemaProps{Type: "object", Properties: map[string]extensions.JSONSchemaProps{"name": {Type: "string"}}, Required: []string{"name"}}},
						XListType:    to("map"),
						XListMapKeys: []string{"name"},
					},
					"labels": {Type: "object", AdditionalProperties: &extensions.JSONSchemaPropsOrBool{
						Allows: true, Schema: &extensions.JSONSchemaProps{Type: "string"}}},
					"raw":   {Type: "object", XPreserveUnknownFields: to(true), Nullable: true},
					"whole": {Type: "object", XEmbeddedResource: true, XPreserveUnknownFields: to(true)},
				},
				XValidations: extensions.ValidationRules{{
					Rule: "self.text != 'no'", MessageExpression: "'it is ' + self.text",
					Reason: to(extensions.FieldValueForbidden), FieldPath: ".text", OptionalOldSelf: to(false),
				}},
			},
			"status": {Type: "object", AdditionalProperties: &extensions.JSONSchemaPropsOrBool{Allows: true}},
		},
	}}
	return &extensions.CustomResourceDefinition{
		ObjectMeta: meta.ObjectMeta{Name: "greetings.example.com"},
		Spec: extensions.CustomResourceDefinitionSpec{
			Group: "example.com",
			Names: extensions.CustomResourceDefinitionNames{
				Plural: "greetings", Singular: "greeting", Kind: "Greeting", ListKind: "GreetingList",
				ShortNames: []string{"gr"}, Categories: []string{"all"},
			},
			Scope: extensions.NamespaceScoped,
			Versions: []extensions.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: schema,
				Subresources: &extensions.CustomResourceSubresources{
					Status: &extensions.CustomResourceSubresourceStatus{},
					Scale: &extensions.CustomResourceSubresourceScale{
						SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas"},
				},
				AdditionalPrinterColumns: []extensions.CustomResourceColumnDefinition{
					{Name: "Text", Type: "string", JSONPath: ".spec.text", Priority: 1}},
				SelectableFields: []extensions.SelectableField{{JSONPath: ".spec.text"}},
			}, {
				Name: "v1alpha1", Served: false, Storage: false, Schema: schema, Deprecated: true,
				DeprecationWarning: to("gone soon"),
			}},
			Conversion: &extensions.CustomResourceConversion{
				Strategy: extensions.WebhookConverter,
				Webhook: &extensions.WebhookConversion{
					ClientConfig:             &extensions.WebhookClientConfig{URL: to("https://example.com/convert")},
					ConversionReviewVersions: []string{"v1"},
				},
			},
		},
	}
}

// Whatever a schema may hold, though no server takes all of it.
func corners() runtime.Object {
	text := extensions.JSONSchemaProps{Type: "string"}
	return &extensions.CustomResourceDefinition{
		ObjectMeta: meta.ObjectMeta{Name: "corners.example.com"},
		Spec: extensions.CustomResourceDefinitionSpec{
			Group: "example.com",
			Names: extensions.CustomResourceDefinitionNames{Plural: "corners", Kind: "Corner"},
			Scope: extensions.ClusterScoped,
			Versions: []extensions.CustomResourceDefinitionVersion{{
				Name: "v1",
				Schema: &extensions.CustomResourceValidation{OpenAPIV3Schema: &extensions.JSONSchemaProps{
					ID: "id", Schema: "schema", Ref: to("#/ref"), Title: "title", Format: "format",
					Items:                &extensions.JSONSchemaPropsOrArray{JSONSchemas: []extensions.JSONSchemaProps{text, {}}},
					AdditionalProperties: &extensions.JSONSchemaPropsOrBool{},
					AdditionalItems:      &extensions.JSONSchemaPropsOrBool{Schema: &extensions.JSONSchemaProps{}},
					Dependencies: extensions.JSONSchemaDependencies{
						"a": {Property: []string{"b", "c"}}, "b": {Schema: &text}},
					Definitions:       extensions.JSONSchemaDefinitions{"d": text},
					PatternProperties: map[string]extensions.JSONSchemaProps{"^x": {}},
					Not:               &extensions.JSONSchemaProps{},
					OneOf:             []extensions.JSONSchemaProps{{}},
					AllOf:             []extensions.JSONSchemaProps{text},
					Default:           raw("0"), Example: raw("[]"),
					Enum:         []extensions.JSON{*raw("null"), *raw("false"), *raw("9007199254740993"), *raw("1.50")},
					ExternalDocs: &extensions.ExternalDocumentation{URL: "https://example.com"},
					UniqueItems:  true, MaxItems: to(int64(0)), MinProperties: to(int64(2)),
					Maximum: to(1e30), Minimum: to(-0.25),
					XMapType: to("granular"),
				}},
			}},
		},
	}
}

package main

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The kinds of extensions.gardener.cloud that this extension reads, with the fields that it reads and writes and no
// others. They are only ever patched: an update would drop the fields that are missing here.

var groupVersion = schema.GroupVersion{Group: "extensions.gardener.cloud", Version: "v1alpha1"}

const (
	annotationOperation = "gardener.cloud/operation"

	stateProcessing = "Processing"
	stateSucceeded  = "Succeeded"
	stateError      = "Error"
	stateFailed     = "Failed"

	// User errors have this code: gardenlet does not retry them before the Shoot changes.
	codeConfigurationProblem = "ERR_CONFIGURATION_PROBLEM"
)

// Spec is what the specs of all kinds have in common.
type Spec struct {
	Type           string                `json:"type"`
	Class          string                `json:"class,omitempty"`
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
}

// Status is what the statuses of all kinds have in common.
type Status struct {
	LastOperation      *LastOperation `json:"lastOperation,omitempty"`
	LastError          *LastError     `json:"lastError,omitempty"`
	ObservedGeneration int64          `json:"observedGeneration,omitempty"`
}

// LastOperation reports how far an operation is.
type LastOperation struct {
	Type           string      `json:"type"`
	State          string      `json:"state"`
	Progress       int32       `json:"progress"`
	Description    string      `json:"description"`
	LastUpdateTime metav1.Time `json:"lastUpdateTime"`
}

// LastError reports why an operation failed.
type LastError struct {
	Description    string       `json:"description"`
	Codes          []string     `json:"codes,omitempty"`
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
}

// object is an object of any of these kinds.
type object interface {
	client.Object
	common() (*Spec, *Status)
}

// Extension is a step in the flow of a Shoot.
type Extension struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitempty"`
}

func (e *Extension) common() (*Spec, *Status) { return &e.Spec, &e.Status }

// ExtensionList is a list of them.
type ExtensionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Extension `json:"items"`
}

// OperatingSystemConfig is what machines of a pool are given: at their birth with purpose provision, and while they
// run with purpose reconcile.
type OperatingSystemConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              OperatingSystemConfigSpec   `json:"spec"`
	Status            OperatingSystemConfigStatus `json:"status,omitempty"`
}

func (o *OperatingSystemConfig) common() (*Spec, *Status) { return &o.Spec.Spec, &o.Status.Status }

// OperatingSystemConfigList is a list of them.
type OperatingSystemConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OperatingSystemConfig `json:"items"`
}

// OperatingSystemConfigSpec has the files and units that gardenlet asks for.
type OperatingSystemConfigSpec struct {
	Spec    `json:",inline"`
	Purpose string `json:"purpose"`
	Files   []File `json:"files,omitempty"`
	Units   []Unit `json:"units,omitempty"`
}

// OperatingSystemConfigStatus leads to the user data, or has what the operating system adds.
type OperatingSystemConfigStatus struct {
	Status         `json:",inline"`
	CloudConfig    *CloudConfig `json:"cloudConfig,omitempty"`
	ExtensionFiles []File       `json:"extensionFiles,omitempty"`
}

// CloudConfig leads to the Secret with the user data.
type CloudConfig struct {
	SecretRef corev1.SecretReference `json:"secretRef"`
}

// File on a machine.
type File struct {
	Path        string      `json:"path"`
	Permissions *uint32     `json:"permissions,omitempty"`
	Content     FileContent `json:"content"`
}

// FileContent is in the object itself or in a Secret.
type FileContent struct {
	Inline    *Inline    `json:"inline,omitempty"`
	SecretRef *SecretKey `json:"secretRef,omitempty"`
}

// Inline content: plain, or base64 with encoding b64.
type Inline struct {
	Encoding string `json:"encoding"`
	Data     string `json:"data"`
}

// SecretKey is a key of a Secret in the object's namespace.
type SecretKey struct {
	Name    string `json:"name"`
	DataKey string `json:"dataKey"`
}

// Unit of systemd.
type Unit struct {
	Name    string  `json:"name"`
	Command *string `json:"command,omitempty"`
	Enable  *bool   `json:"enable,omitempty"`
	Content *string `json:"content,omitempty"`
	DropIns []struct {
		Name    string `json:"name"`
		Content string `json:"content"`
	} `json:"dropIns,omitempty"`
}

// Cluster is the Shoot as gardenlet mirrors it into the seed.
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Shoot struct {
			Status struct {
				LastOperation *LastOperation `json:"lastOperation,omitempty"`
			} `json:"status,omitempty"`
		} `json:"shoot"`
	} `json:"spec"`
}

// ClusterList is a list of them.
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}

// copied is a deep copy by way of JSON: slower than generated code, and these objects are few and small.
func copied[T any](from *T) *T {
	text, err := json.Marshal(from)
	to := new(T)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		panic(err) // types of this file always can be written and read
	}
	return to
}

// DeepCopyObject copies it.
func (e *Extension) DeepCopyObject() runtime.Object { return copied(e) }

// DeepCopyObject copies it.
func (l *ExtensionList) DeepCopyObject() runtime.Object { return copied(l) }

// DeepCopyObject copies it.
func (o *OperatingSystemConfig) DeepCopyObject() runtime.Object { return copied(o) }

// DeepCopyObject copies it.
func (l *OperatingSystemConfigList) DeepCopyObject() runtime.Object { return copied(l) }

// DeepCopyObject copies it.
func (c *Cluster) DeepCopyObject() runtime.Object { return copied(c) }

// DeepCopyObject copies it.
func (l *ClusterList) DeepCopyObject() runtime.Object { return copied(l) }

func addToScheme(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(groupVersion, &Extension{}, &ExtensionList{}, &OperatingSystemConfig{},
		&OperatingSystemConfigList{}, &Cluster{}, &ClusterList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
}

// Package manifests_test checks the manifests of deploy/kubernetes with the types of Kubernetes. It
// is a module of its own, so that these are no dependencies of the library.
package manifests_test

import (
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"
)

// scaledObject has the fields of a KEDA ScaledObject that the manifest uses; KEDA's own types
// would need all of its modules.
type scaledObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		ScaleTargetRef struct {
			Name string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicaCount *int32 `json:"minReplicaCount"`
		MaxReplicaCount *int32 `json:"maxReplicaCount"`
		PollingInterval *int32 `json:"pollingInterval"`
		CooldownPeriod  *int32 `json:"cooldownPeriod"`
		Advanced        struct {
			HorizontalPodAutoscalerConfig struct {
				Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
		Triggers []struct {
			Type     string            `json:"type"`
			Metadata map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// read decodes a manifest, and refuses fields that its type does not have.
func read(t *testing.T, name string, manifest any) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/kubernetes/" + name)
	if err == nil {
		err = yaml.UnmarshalStrict(text, manifest)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func TestDeployment(t *testing.T) {
	var d appsv1.Deployment
	read(t, "deployment.yml", &d)
	if d.APIVersion != "apps/v1" || d.Kind != "Deployment" {
		t.Errorf("apiVersion %s, kind %s", d.APIVersion, d.Kind)
	}
	pod := d.Spec.Template
	for name, value := range d.Spec.Selector.MatchLabels {
		if pod.Labels[name] != value {
			t.Errorf("the selector needs label %s=%s, which the pods do not have", name, value)
		}
	}
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace == nil || *grace < 40 {
		t.Error("terminationGracePeriodSeconds must be the 40 s of docs/guides/run-on-kubernetes.md at least")
	}
	c := pod.Spec.Containers[0]
	for path, probe := range map[string]*struct {
		path, port string
		timeout    time.Duration
	}{
		"/health/live":  {c.LivenessProbe.HTTPGet.Path, c.LivenessProbe.HTTPGet.Port.String(), 0},
		"/health/ready": {c.ReadinessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Port.String(), time.Duration(c.ReadinessProbe.TimeoutSeconds) * time.Second},
	} {
		if probe.path != path || probe.port != c.Ports[0].Name {
			t.Errorf("probe %s asks %s of port %s", path, probe.path, probe.port)
		}
		if path == "/health/ready" && probe.timeout <= 5250*time.Millisecond {
			t.Errorf("a check takes up to 5.25 s, and the probe waits for %s", probe.timeout)
		}
	}
	if c.StartupProbe.HTTPGet.Path != "/health/live" {
		t.Errorf("the startup probe asks %s", c.StartupProbe.HTTPGet.Path)
	}
}

func TestScaledObject(t *testing.T) {
	var d appsv1.Deployment
	read(t, "deployment.yml", &d)
	var s scaledObject
	read(t, "scaledobject.yml", &s)
	if s.APIVersion != "keda.sh/v1alpha1" || s.Kind != "ScaledObject" {
		t.Errorf("apiVersion %s, kind %s", s.APIVersion, s.Kind)
	}
	if s.Spec.ScaleTargetRef.Name != d.Name {
		t.Errorf("it scales %q, and the deployment is %q", s.Spec.ScaleTargetRef.Name, d.Name)
	}
	if *s.Spec.MinReplicaCount > *s.Spec.MaxReplicaCount {
		t.Error("minReplicaCount is larger than maxReplicaCount")
	}
	for _, policy := range s.Spec.Advanced.HorizontalPodAutoscalerConfig.Behavior.ScaleDown.Policies {
		if policy.Type != autoscalingv2.PercentScalingPolicy || policy.PeriodSeconds < 1 || policy.PeriodSeconds > 1800 {
			t.Errorf("policy %+v", policy)
		}
	}
	for _, trigger := range s.Spec.Triggers {
		for _, field := range []string{"serverAddress", "query", "threshold"} {
			if trigger.Type != "prometheus" || trigger.Metadata[field] == "" {
				t.Errorf("the %s trigger has no %s", trigger.Type, field)
			}
		}
	}
}

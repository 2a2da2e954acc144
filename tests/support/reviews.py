"""AdmissionReviews as an API server sends them."""

import copy
from typing import Any, Final

Object = dict[str, Any]
KINDS: Final = {
    "pods": ("", "v1", "Pod"),
    "cachebackends": ("inferencecache.io", "v1alpha1", "CacheBackend"),
    "cachepolicies": ("inferencecache.io", "v1alpha1", "CachePolicy"),
    "cachetenants": ("inferencecache.io", "v1alpha1", "CacheTenant"),
    "kvcachebackends": ("worker.gpustack.ai", "v1", "KVCacheBackend"),
    "kvcachepools": ("worker.gpustack.ai", "v1", "KVCachePool"),
    "kvcachepoolbindings": ("worker.gpustack.ai", "v1", "KVCachePoolBinding"),
    "modeldeployments": ("worker.gpustack.ai", "v1", "ModelDeployment"),
}

#: An engine's Pod as its ReplicaSet creates it, defaults and managed fields included.
ENGINE: Final[Object] = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {
        "generateName": "qwen-7f9c8d7b6-",
        "namespace": "ml",
        "uid": "0b4ae0a2-9d0f-4a53-8e9b-0e7c3b8f0001",
        "creationTimestamp": "2026-11-30T15:00:00Z",
        "labels": {"serve": "qwen", "app": "qwen", "pod-template-hash": "7f9c8d7b6"},
        "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8000"},
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "qwen-7f9c8d7b6",
                "uid": "6f3d2c1b",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": [
            {
                "manager": "kube-controller-manager",
                "operation": "Update",
                "apiVersion": "v1",
                "time": "2026-11-30T15:00:00Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": {
                    "f:metadata": {
                        "f:annotations": {".": {}, "f:prometheus.io/scrape": {}},
                        "f:generateName": {},
                        "f:labels": {".": {}, "f:serve": {}, "f:app": {}, "f:pod-template-hash": {}},
                        "f:ownerReferences": {".": {}, 'k:{"uid":"6f3d2c1b"}': {}},
                    },
                    "f:spec": {
                        "f:containers": {
                            'k:{"name":"vllm"}': {
                                ".": {},
                                "f:args": {},
                                "f:env": {
                                    ".": {},
                                    'k:{"name":"HF_TOKEN"}': {
                                        ".": {},
                                        "f:name": {},
                                        "f:valueFrom": {".": {}, "f:secretKeyRef": {}},
                                    },
                                },
                                "f:image": {},
                                "f:imagePullPolicy": {},
                                "f:name": {},
                                "f:ports": {},
                                "f:resources": {},
                                "f:volumeMounts": {},
                            }
                        },
                        "f:dnsPolicy": {},
                        "f:enableServiceLinks": {},
                        "f:restartPolicy": {},
                        "f:schedulerName": {},
                        "f:securityContext": {},
                        "f:terminationGracePeriodSeconds": {},
                        "f:volumes": {},
                    },
                },
            }
        ],
    },
    "spec": {
        "volumes": [
            {"name": "models", "persistentVolumeClaim": {"claimName": "models"}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}},
            {
                "name": "kube-api-access-x7k2p",
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                        {
                            "downwardAPI": {
                                "items": [
                                    {
                                        "path": "namespace",
                                        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                                    }
                                ]
                            }
                        },
                    ],
                    "defaultMode": 420,
                },
            },
        ],
        "containers": [
            {
                "name": "vllm",
                "image": "vllm/vllm-openai:v0.11.0",
                "args": [
                    "--model",
                    "Qwen/Qwen3-32B",
                    "--tensor-parallel-size",
                    "4",
                    "--gpu-memory-utilization",
                    "0.92",
                    "--max-model-len",
                    "32768",
                    "--enable-prefix-caching",
                    "--kv-events-config",
                    '{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": '
                    '"tcp://*:5557", "replay_endpoint": "tcp://*:5657"}',
                    "--api-key",
                    "$(API_KEY)",
                ],
                "ports": [
                    {"name": "http", "containerPort": 8000, "protocol": "TCP"},
                    {"name": "kv", "containerPort": 5557, "protocol": "TCP"},
                ],
                "env": [
                    {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
                    {"name": "API_KEY", "valueFrom": {"secretKeyRef": {"name": "api", "key": "key"}}},
                    {"name": "NCCL_DEBUG", "value": "WARN"},
                    {"name": "VLLM_LOGGING_LEVEL", "value": "INFO"},
                ],
                "resources": {
                    "limits": {"cpu": "16", "memory": "128Gi", "nvidia.com/gpu": "4"},
                    "requests": {"cpu": "16", "memory": "128Gi", "nvidia.com/gpu": "4"},
                },
                "volumeMounts": [
                    {"name": "models", "mountPath": "/models", "readOnly": True},
                    {"name": "shm", "mountPath": "/dev/shm"},
                    {
                        "name": "kube-api-access-x7k2p",
                        "readOnly": True,
                        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                    },
                ],
                "readinessProbe": {
                    "httpGet": {"path": "/health", "port": 8000, "scheme": "HTTP"},
                    "initialDelaySeconds": 30,
                    "timeoutSeconds": 1,
                    "periodSeconds": 5,
                    "successThreshold": 1,
                    "failureThreshold": 3,
                },
                "livenessProbe": {
                    "httpGet": {"path": "/health", "port": 8000, "scheme": "HTTP"},
                    "timeoutSeconds": 1,
                    "periodSeconds": 10,
                    "successThreshold": 1,
                    "failureThreshold": 3,
                },
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {
                "key": "node.kubernetes.io/not-ready",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            },
            {
                "key": "node.kubernetes.io/unreachable",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            },
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    },
    "status": {},
}


def of(
    plural: str, document: Object | None, *, uid: str = "u", operation: str = "CREATE", namespace: str = "ml",
    name: str = "", old: Object | None = None, **request: Any,
) -> Object:  # fmt: skip
    group, version, kind = KINDS[plural]
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": uid,
            "kind": {"group": group, "version": version, "kind": kind},
            "resource": {"group": group, "version": version, "resource": plural},
            "requestKind": {"group": group, "version": version, "kind": kind},
            "requestResource": {"group": group, "version": version, "resource": plural},
            "name": name,
            "namespace": namespace,
            "operation": operation,
            "userInfo": {
                "username": "system:serviceaccount:kube-system:replicaset-controller",
                "groups": ["system:serviceaccounts", "system:authenticated"],
            },
            "object": document,
            "oldObject": old,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            **request,
        },
    }


def of_pod(pod: Object = ENGINE, *, uid: str = "u", **request: Any) -> Object:
    return of("pods", copy.deepcopy(pod), uid=uid, **request)

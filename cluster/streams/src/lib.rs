//! Several streams over one connection to a pod: frames of SPDY 3.1 and messages of WebSocket, as `kubectl exec` and
//! `kubectl port-forward` send them, and the answers to their requests for an upgrade. Forwarded ports are whole; of commands it
//! knows nothing. It dials nothing itself.

mod headers;
pub mod port_forward;
pub mod spdy;
pub mod upgrade;
pub mod websocket;

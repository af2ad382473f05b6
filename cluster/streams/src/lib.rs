//! Several streams over one connection to a pod: frames of SPDY 3.1 and messages of WebSocket, as `kubectl exec` and
//! `kubectl port-forward` send them, and the answers to their requests for an upgrade. Port forwarding is complete here; commands
//! are the caller's. It dials nothing itself.

mod headers;
pub mod port_forward;
pub mod spdy;
pub mod upgrade;
pub mod websocket;

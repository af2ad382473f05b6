//! Several streams over one connection to a pod: frames of SPDY 3.1 and messages of WebSocket, as `kubectl exec` and
//! `kubectl port-forward` send them, and the answers to their requests for an upgrade. It knows neither commands nor ports, and
//! dials nothing.

mod headers;
pub mod spdy;
pub mod upgrade;
pub mod websocket;

import Common
import Glibc

/// Reason why a socket cannot be used.
public enum NetworkError: CodedError, Hashable {
  /// Nothing listens at the address, or the peer has reset the connection.
  case refused
  case reset
  /// There is no route to the address, or no answer from it.
  case unreachable
  /// The peer has not answered within the time limit.
  case timedOut
  /// The port is in use by another program.
  case portInUse
  /// This machine does not have the address or the interface.
  case noSuchAddress
  /// The process may not use the network, or not in the requested way.
  case denied
  /// The process or the machine has no descriptors or memory left for a socket.
  case exhausted
  /// The kernel does not have this family of addresses.
  case unsupported
  /// A datagram has more than 1,500 bytes, or more than the interface carries.
  case datagramTooLong
  /// Any other reason, in the kernel's words.
  case other(String)

  /// Converts `errno` to a reason.
  public init(errno code: Int32) {
    self =
      switch code {
      case ECONNREFUSED: .refused
      case ECONNRESET, EPIPE, ECONNABORTED: .reset
      case ENETUNREACH, EHOSTUNREACH, ENETDOWN, EHOSTDOWN: .unreachable
      case ETIMEDOUT: .timedOut
      case EADDRINUSE: .portInUse
      case EADDRNOTAVAIL, ENODEV, ENXIO: .noSuchAddress
      case EACCES, EPERM: .denied
      case EMFILE, ENFILE, ENOBUFS, ENOMEM: .exhausted
      case EAFNOSUPPORT, EPROTONOSUPPORT, EOPNOTSUPP: .unsupported
      case EMSGSIZE: .datagramTooLong
      default: .other(strerror(code).map { String(cString: $0) } ?? "error \(code)")
      }
  }

  public var code: String {
    switch self {
    case .refused: "ConnectionRefused"
    case .reset: "ConnectionReset"
    case .unreachable: "Unreachable"
    case .timedOut: "Timeout"
    case .portInUse: "PortInUse"
    case .noSuchAddress: "NoSuchAddress"
    case .denied: "AccessDenied"
    case .exhausted: "LimitExceeded"
    case .unsupported: "NotSupported"
    case .datagramTooLong: "DatagramTooLong"
    case .other: "Failed"
    }
  }

  public var sentence: String {
    switch self {
    case .refused: "Nothing accepts connections at this address."
    case .reset: "The peer has reset the connection."
    case .unreachable: "The address cannot be reached. Check the network connection."
    case .timedOut: "The peer has not answered in time."
    case .portInUse: "Another program uses the port. Stop it, or choose another port."
    case .noSuchAddress: "This machine does not have the address or the interface."
    case .denied: "The process may not use the network. Check the unit's restrictions."
    case .exhausted: "This process or machine has no descriptors or memory left for a socket."
    case .unsupported: "The kernel does not support this kind of address."
    case .datagramTooLong: "The datagram is too long for the network."
    case .other(let words): "The network failed: \(words)."
    }
  }
}

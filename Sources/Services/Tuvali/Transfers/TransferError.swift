import Common
import DBus
import Tuvali

extension DBusError {
  /// D-Bus error for the end of a transfer: its name depends on the reason, its message contains the protocol's code.
  public init(_ error: TuvaliError) {
    let sentence = "\(error.code): \(error.sentence)"
    self =
      switch error.reason {
      case .protocolViolation, .wrongCode: .protocolError(sentence)
      case .limitExceeded, .noCapacity: .limitExceeded(sentence)
      case .invalidArgument: .invalidArgs(sentence)
      case .timeout: .timeout(sentence)
      case .peerLost, .peerEnded: .peerLost(sentence)
      case .busy: .busy(sentence)
      case .stopped: .failed(sentence)
      case .radioRefused: .notReady(sentence)
      }
  }
}

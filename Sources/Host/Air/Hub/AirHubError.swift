import Common

/// The reason why a hub cannot listen.
public enum AirHubError: CodedError, Equatable {
  /// The path is empty, or longer than `limit`, the maximum bytes of a socket name.
  case badPath(path: String, limit: Int)
  case alreadyRunning(path: String)
  case notASocket(path: String)
  case cannotListen(path: String, reason: String)

  public var code: String {
    switch self {
    case .badPath: "BadPath"
    case .alreadyRunning: "AlreadyRunning"
    case .notASocket: "NotASocket"
    case .cannotListen: "CannotListen"
    }
  }

  public var sentence: String {
    switch self {
    case .badPath(let path, let limit):
      "\"\(path)\" cannot be the path of a socket, which has 1 to \(limit) bytes. Choose a shorter one."
    case .alreadyRunning(let path):
      "There is a simulated air at \(path) already. Use it, or choose another path."
    case .notASocket(let path):
      "\(path) is there and is no socket. Remove it, or choose another path."
    case .cannotListen(let path, let reason):
      "Cannot listen at \(path): \(reason). Check that its folder is there and that you may write to it."
    }
  }
}

import FullScreen
import MeshViews

/// Input of the chat's state machine: a key, a new size of the terminal, or news of the service.
public enum ChatEvent: Sendable, Equatable {
  case key(Key)
  case resized(columns: Int, rows: Int)
  /// Current state of the node.
  case node(MeshView)
  /// All known peers.
  case peers([MeshPeerView])
  /// Messages in ascending order of number; known ones are ignored.
  case messages([MeshMessageView])
  /// All files.
  case files([MeshFileView])
  case stateChanged(message: UInt32, MeshMessageView.State)
  /// A message of this node was sent over the uplink.
  case wentByUplink(message: UInt32)
  /// The service has started. Earlier data may be outdated: messages are listed from the first.
  case serviceCame
  case serviceWent
  /// Result of a proof that the user requested of a peer by its verification code.
  case proof(peer: String, MeshProof)
  /// A favourite or verified peer has changed its nickname.
  case renamed(peer: String, before: String, now: String)
  /// The service has completed an action.
  case done(ChatAction)
  /// An action failed; the text is the reason.
  case failed(ChatAction, String)
}

/// Output of the chat's state machine: a request to the service, or to the terminal.
public enum ChatAction: Sendable, Equatable {
  case say(String)
  case tell(peer: String, String)
  /// This message and the earlier ones of its conversation were displayed.
  case markRead(UInt32)
  case setNickname(String)
  case favourite(peer: String, Bool)
  case block(peer: String, Bool)
  /// Send a file; to everybody if `peer` is empty.
  case sendFile(path: String, peer: String)
  /// Mark a peer as verified; an empty fingerprint revokes that.
  case verify(peer: String, fingerprint: String)
  /// Text of a peer's verification code: ask the peer for proof.
  case verifyCode(String)
  case quit

  /// Whether the action sends a text.
  var isText: Bool {
    switch self {
    case .say, .tell: true
    default: false
    }
  }

  /// Whether the service answers the request immediately; a proof by a verification code takes up to half a minute.
  var isQuick: Bool { if case .verifyCode = self { false } else { true } }
}

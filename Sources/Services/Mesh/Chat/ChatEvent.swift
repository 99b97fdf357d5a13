import FullScreen
import MeshViews

/// What happens to a chat.
public enum ChatEvent: Sendable, Equatable {
  case key(Key)
  case resized(columns: Int, rows: Int)
  /// The node as it is now.
  case node(MeshView)
  /// All peers that are known now.
  case peers([MeshPeerView])
  /// Messages with growing numbers; those that are there already are passed over.
  case messages([MeshMessageView])
  /// All files that there are now.
  case files([MeshFileView])
  case stateChanged(message: UInt32, MeshMessageView.State)
  /// The service is there, and all that was known of it may be old: messages are listed from the first.
  case serviceCame
  case serviceWent
  /// What became of the proof that a peer was asked for.
  case proof(peer: String, MeshProof)
  /// A favourite or verified peer has another nickname.
  case renamed(peer: String, before: String, now: String)
  /// The service has done an action.
  case done(ChatAction)
  /// What an action came to, where it did not work.
  case failed(ChatAction, String)
}

/// What a chat wants done.
public enum ChatAction: Sendable, Equatable {
  case say(String)
  case tell(peer: String, String)
  /// This message and the earlier ones of its conversation were on the screen.
  case markRead(UInt32)
  case setNickname(String)
  case favourite(peer: String, Bool)
  case block(peer: String, Bool)
  /// Sends a file, to everybody where `peer` is empty.
  case sendFile(path: String, peer: String)
  /// An empty fingerprint takes it back.
  case verify(peer: String, fingerprint: String)
  /// The text of a peer's verification code: the peer is asked for proof.
  case verifyCode(String)
  case quit

  /// Whether it sends a text.
  var isText: Bool {
    switch self {
    case .say, .tell: true
    default: false
    }
  }

  /// Whether the service answers it at once.
  var isQuick: Bool { if case .verifyCode = self { false } else { true } }
}

import Bitchat
import BitchatWire
import Common
import MeshNaming

/// Reason why a message or command is rejected.
public enum MeshRefusal: CodedError, Equatable {
  case notReady(String)
  case empty
  case tooLong
  case tooManyCharacters
  /// A text does not name exactly one peer.
  case name(MeshNameRefusal)
  case tooManyWait
  case linksFull
  case tooManyPublicMessages
  case tooManyPings
  case relay
  case emptyFile
  case fileTooLong
  case otherKind(String)
  case tooManyFiles
  case ourselves
  case favouriteNotice

  public var code: String {
    switch self {
    case .notReady: "NotReady"
    case .empty: "EmptyText"
    case .tooLong, .tooManyCharacters: "TextTooLong"
    case .name(let refusal): refusal.isUnknown ? "UnknownPeer" : "AmbiguousPeer"
    case .tooManyWait: "TooManyWait"
    case .linksFull: "LinksFull"
    case .tooManyPublicMessages: "TooManyPublicMessages"
    case .tooManyPings: "TooManyPings"
    case .relay: "RelayOnly"
    case .emptyFile: "EmptyFile"
    case .fileTooLong: "FileTooLong"
    case .otherKind: "OtherKind"
    case .tooManyFiles: "TooManyFiles"
    case .ourselves: "Ourselves"
    case .favouriteNotice: "FavouriteNotice"
    }
  }

  public var sentence: String {
    switch self {
    case .notReady(let why): why
    case .empty: "The text is empty."
    case .tooLong: "The text has more than \(Limits.privateTextBytes) bytes."
    case .tooManyCharacters:
      "The text has more than \(Limits.publicTextCharacters) characters, the limit of public messages."
    case .name(let refusal): refusal.sentence
    case .tooManyWait: "Too many private messages wait for delivery: 100 for one peer, 1,000 in all, or 16 MiB."
    case .linksFull:
      "The message was not sent: the queues of the links to the neighbours are full. Try again in some seconds."
    case .tooManyPublicMessages:
      "The message was not sent: neighbours accept \(Limits.publicMessagesPerMinute) public messages a minute from "
        + "one peer. Try again in some seconds."
    case .tooManyPings: "\(Limits.waitingPings) pings are already waiting for their answers."
    case .relay:
      "This node is a relay (Role=relay in [Mesh]), which has no messages, files and verification codes of its own."
    case .emptyFile: "The file is empty."
    case .fileTooLong: "The file has more than \(Limits.fileBytes) bytes."
    case .otherKind(let mime):
      "The content is not of the type \(mime.isEmpty ? "that it seems to have" : PrintableText.clean(mime)), or the "
        + "apps do not accept this type. They accept any file as application/octet-stream."
    case .tooManyFiles: "Eight files are already being sent."
    case .ourselves: "The peer is this node itself."
    case .favouriteNotice:
      "The apps take a private text that begins with [FAVORITED] or [UNFAVORITED] for a notice, and do not show it. "
        + "Begin the text with another character."
    }
  }
}

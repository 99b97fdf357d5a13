import Common
import DBus
import MeshNaming
import Terminal

/// File according to the properties of its D-Bus object.
public struct MeshFileView: Sendable, Equatable {
  public let number: UInt32
  public var name = ""
  public var mime = ""
  public var size = 0
  /// Peer ID of 16 hexadecimal digits; empty for a public file.
  public var peer = ""
  /// Nickname of the sender at arrival; empty for a file of this node.
  public var nickname = ""
  public var isPrivate = false
  public var isIncoming = false
  /// Share of the file that has arrived or was sent, in percent.
  public var progress = 0
  /// State of the file: `receiving` or `received`; `waiting`, `sending`, `sent`, `delivered`, `failed` or `cancelled`.
  public var state = ""
  /// Sentence about a problem; empty if there is none.
  public var reason = ""
  /// Time of the file, in milliseconds since 1970.
  public var time: UInt64 = 0

  public init(number: UInt32) {
    self.number = number
  }

  /// - Parameter properties: properties of `MeshFile1`. Nil if the path is not that of a file.
  public init?(_ path: String, _ properties: [String: DBusValue]) {
    let prefix = MeshNames.path.string + "/file"
    guard path.hasPrefix(prefix), let number = UInt32(path.dropFirst(prefix.count)) else { return nil }
    self.init(number: number)
    name = properties["Name"]?.asString ?? ""
    mime = properties["Mime"]?.asString ?? ""
    size = properties["Size"]?.asInteger ?? 0
    peer = properties["Peer"]?.asString ?? ""
    nickname = properties["Nickname"]?.asString ?? ""
    isPrivate = properties["Private"]?.asBool ?? false
    isIncoming = properties["Direction"]?.asString == "incoming"
    progress = properties["Progress"]?.asInteger ?? 0
    state = properties["State"]?.asString ?? ""
    reason = properties["Reason"]?.asString ?? ""
    if case .uint64(let time)? = properties["Time"]?.unwrapped { self.time = time }
  }

  /// All files among the objects of the service, sorted by number.
  public static func all(_ objects: [String: [String: [String: DBusValue]]]) -> [MeshFileView] {
    objects.compactMap { path, interfaces in
      interfaces[MeshNames.fileInterface].flatMap { MeshFileView(path, $0) }
    }.sorted { $0.number < $1.number }
  }

  public var isEnded: Bool { !["waiting", "sending", "receiving"].contains(state) }
  /// Whether the file was received or sent successfully.
  public var isWell: Bool { ["received", "sent", "delivered"].contains(state) }

  /// Name on one line, without quotation marks: sentences put it in quotation marks.
  public var shownName: String { NicknameText.unreserved(name, limit: 100) }

  /// Size for people (``humanBytes(_:)``); `?` if unknown.
  public var shownSize: String { state == "receiving" ? "?" : humanBytes(size) }
}

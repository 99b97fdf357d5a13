import DBus
import Loop
import Tool

/// Node according to its D-Bus properties. Programs outside of the group see only state, reason, role and counters.
public struct MeshView: Sendable, Equatable {
  public var nickname = ""
  /// Peer ID: 16 lower-case hexadecimal digits.
  public var id = ""
  /// Fingerprint of this node's Noise key: 64 hexadecimal digits.
  public var fingerprint = ""
  public var links = 0
  public var unread = 0
  /// State of the node: `stopped`, `waitingForClock`, `alone` or `connected`.
  public var state = ""
  /// Sentence about a problem; empty if there is none.
  public var reason = ""
  /// Number of envelopes carried for others.
  public var carried = 0
  /// Slice size of a public file, in bytes; 0 if unknown.
  public var sliceBytes = 0
  /// Role of the node: `node`, `relay` or `mailbox`.
  public var role = ""
  public var counters: [String: Int] = [:]

  public init() {}

  /// - Parameter properties: properties of `Mesh1`.
  public init(_ properties: [String: DBusValue]) {
    update(properties)
  }

  /// Node among the objects of the service; nil if the service has no mesh.
  public init?(objects: [String: [String: [String: DBusValue]]]) {
    guard let properties = objects[MeshNames.path.string]?[MeshNames.interface] else { return nil }
    self.init(properties)
  }

  /// Updates the values that are present.
  public mutating func update(_ properties: [String: DBusValue]) {
    nickname = properties["Nickname"]?.asString ?? nickname
    id = properties["PeerId"]?.asString ?? id
    fingerprint = properties["Fingerprint"]?.asString ?? fingerprint
    links = properties["Links"]?.asInteger ?? links
    unread = properties["Unread"]?.asInteger ?? unread
    carried = properties["Carried"]?.asInteger ?? carried
    sliceBytes = properties["SliceBytes"]?.asInteger ?? sliceBytes
    state = properties["State"]?.asString ?? state
    reason = properties["Reason"]?.asString ?? reason
    role = properties["Role"]?.asString ?? role
    counters = properties["Counters"]?.asDictionary?.compactMapValues(\.asInteger) ?? counters
  }
}

extension Client {
  /// Fetches messages with a number above `after`, oldest first.
  ///
  /// - Parameter limit: maximum number; 0 for the service's limit per call.
  public func meshMessages(after: UInt32, limit: UInt32 = 0) async throws(Failure) -> [MeshMessageView] {
    let values = try await call(
      MeshNames.path, MeshNames.interface, "ListMessages", [.uint32(after), .uint32(limit)],
      of: MeshNames.feature)
    return (values.first?.asArray ?? []).compactMap { MeshMessageView($0) }
  }

  /// Calls a method of the mesh.
  @discardableResult
  public func mesh(_ method: String, _ arguments: DBusValue...) async throws(Failure) -> [DBusValue] {
    try await call(MeshNames.path, MeshNames.interface, method, arguments, of: MeshNames.feature)
  }

  /// Calls a method of a peer's D-Bus object.
  ///
  /// - Parameter peer: 16 lower-case hexadecimal digits.
  @discardableResult
  public func meshPeer(_ peer: String, _ method: String, _ arguments: DBusValue...) async throws(Failure) -> [DBusValue]
  {
    try await call(MeshNames.path(ofPeer: peer), MeshNames.peerInterface, method, arguments)
  }
}

/// Object paths and interface names of the mesh on D-Bus.
public enum MeshNames {
  public static let feature = Feature("mesh", section: "Mesh")
  public static let path: ObjectPath = "/org/earshot/mesh"
  public static let interface = "org.earshot.Mesh1"
  public static let peerInterface = "org.earshot.MeshPeer1"
  public static let fileInterface = "org.earshot.MeshFile1"

  /// Returns the D-Bus object path of the file with this number.
  public static func path(ofFile number: UInt32) -> ObjectPath { path.child("file\(number)") }

  /// Object path of a peer.
  ///
  /// - Parameter peer: peer ID, 16 lower-case hexadecimal digits.
  public static func path(ofPeer peer: String) -> ObjectPath { path.child("peer" + peer) }
}

import DBus

/// Node according to its D-Bus properties. Programs outside of the group see only state, reason, role and counters.
public struct MeshView: Sendable, Equatable {
  public var nickname = ""
  /// 16 lower-case hexadecimal digits.
  public var id = ""
  /// 64 hexadecimal digits.
  public var fingerprint = ""
  public var links = 0
  public var unread = 0
  /// `stopped`, `waitingForClock`, `alone` or `connected`.
  public var state = ""
  /// Sentence about a problem; empty if there is none.
  public var reason = ""
  /// Number of envelopes carried for others.
  public var carried = 0
  /// Slice size of a public file, in bytes; 0 if unknown.
  public var sliceBytes = 0
  /// `node`, `relay` or `mailbox`.
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

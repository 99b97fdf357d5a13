import DBus

/// The node as its properties show it. A program that is not of the group sees state, reason, role and counters alone.
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
  /// A sentence; empty where all is well.
  public var reason = ""
  /// Envelopes of others that it carries.
  public var carried = 0
  /// Bytes of a file for everybody in each of its fragments; 0 where that is not known.
  public var sliceBytes = 0
  /// `node`, `relay` or `mailbox`.
  public var role = ""
  public var counters: [String: Int] = [:]

  public init() {}

  /// - Parameter properties: of `Mesh1`.
  public init(_ properties: [String: DBusValue]) {
    update(properties)
  }

  /// The node among the objects of the service; nil where the service has no mesh.
  public init?(objects: [String: [String: [String: DBusValue]]]) {
    guard let properties = objects[MeshNames.path.string]?[MeshNames.interface] else { return nil }
    self.init(properties)
  }

  /// Takes over the values that are there: all, or those that changed.
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

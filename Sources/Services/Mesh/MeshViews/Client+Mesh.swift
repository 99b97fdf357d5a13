import DBus
import Loop
import Tool

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

import DBus
import Tool

/// Where the mesh is on the bus, and what its interfaces are called.
public enum MeshNames {
  public static let feature = Feature("mesh", section: "Mesh")
  public static let path: ObjectPath = "/org/earshot/mesh"
  public static let interface = "org.earshot.Mesh1"
  public static let peerInterface = "org.earshot.MeshPeer1"
  public static let fileInterface = "org.earshot.MeshFile1"

  /// The object of a file.
  public static func path(ofFile number: UInt32) -> ObjectPath { path.child("file\(number)") }

  /// The object of a peer.
  ///
  /// - Parameter peer: its ID, 16 lower-case hexadecimal digits.
  public static func path(ofPeer peer: String) -> ObjectPath { path.child("peer" + peer) }
}

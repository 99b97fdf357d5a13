import DBus
import Tool

/// Object paths and interface names of the mesh on D-Bus.
public enum MeshNames {
  public static let feature = Feature("mesh", section: "Mesh")
  public static let path: ObjectPath = "/org/earshot/mesh"
  public static let interface = "org.earshot.Mesh1"
  public static let peerInterface = "org.earshot.MeshPeer1"
  public static let fileInterface = "org.earshot.MeshFile1"

  /// Object path of a file.
  public static func path(ofFile number: UInt32) -> ObjectPath { path.child("file\(number)") }

  /// Object path of a peer.
  ///
  /// - Parameter peer: peer ID, 16 lower-case hexadecimal digits.
  public static func path(ofPeer peer: String) -> ObjectPath { path.child("peer" + peer) }
}

import Bitchat
import Common
import DBus
import Loop
import Store

/// D-Bus objects of the mesh's files, `org.earshot.MeshFile1`, accessible to root and the group.
@LoopActor
final class MeshFileObjects {
  nonisolated static let interfaceName = "org.earshot.MeshFile1"

  private let service: MeshService
  private let tree: ObjectTree
  private let root: ObjectPath
  private let manager: ObjectPath
  private var objects: [UInt32: ExportedObject] = [:]
  private let opened: OpenFiles

  init(_ service: MeshService, on tree: ObjectTree, below root: ObjectPath, manager: ObjectPath) {
    (self.service, self.tree, self.root, self.manager) = (service, tree, root, manager)
    opened = OpenFiles(of: service)
    service.files.changes.addForGood { [weak self] in self?.look(at: $0) }
    service.node.changes.addForGood { [weak self] in self?.lookAtAll() }
  }

  /// Object path of the file with this number.
  nonisolated static func path(_ number: UInt32) -> ObjectPath { MeshAdaptor.path.child("file\(number)") }

  /// Adds and removes objects after a start or a wipe, so that each file has one.
  private func lookAtAll() {
    let known = service.files.log.entries
    guard known.count != objects.count else { return }
    for number in Set(known.keys).symmetricDifference(objects.keys) { look(at: number) }
  }

  private func look(at number: UInt32) {
    guard service.files[number] != nil else {
      objects[number] = nil
      return
    }
    if let object = objects[number] {
      return object.changed("Name", "Mime", "Size", "Nickname", "Progress", "State", "Reason", "Time")
    }
    objects[number] = tree.export(
      root.child("file\(number)"), interfaces: [Self.interface(number, service, opened)], manager: manager)
  }

  static func interface(_ number: UInt32, _ service: MeshService, _ opened: OpenFiles) -> Interface {
    func entry() -> FileLog.Entry? { service.files[number] }
    func text(
      _ name: String, _ documentation: String, emits: Property.Emits = .changes,
      _ get: @escaping @LoopActor (FileLog.Entry) -> String
    ) -> Property {
      Property(name, "s", documentation: documentation, emits: emits, get: { .string(entry().map(get) ?? "") })
    }
    return Interface(
      interfaceName,
      documentation:
        "A file of the mesh: one that was received and is stored for a limited time, one that is being received, or "
        + "one that this node sends. Signals about it are sent to programs that have called Watch of the manager; "
        + "Mesh1 signals to everybody the number of a file that was received, or whose state changed. The service does "
        + "not check the content of received files, so programs should not trust it.",
      audience: .group, methods: methods(number, service, opened),
      properties: [
        text(
          "Name",
          "A plain file name, not a path, of at most 100 characters; empty while the file is being received."
        ) {
          $0.name
        },
        text(
          "Mime",
          "The MIME type of the file, one of those that the apps accept; empty while the file is being received."
        ) { $0.mime },
        Property(
          "Size", "t", documentation: "The size of the file in bytes; 0 while the file is being received.",
          get: { .uint64(UInt64(entry()?.size ?? 0)) }),
        text(
          "Peer", "The ID of the file's sender, or of the peer that it is sent to; empty for a file to everybody.",
          emits: .const
        ) {
          $0.peer?.description ?? ""
        },
        text(
          "Nickname",
          "The nickname that the sender had when the file was received; empty for a file of this node."
        ) { $0.nickname },
        Property(
          "Private", "b", documentation: "Whether the file is sent, or was received, in an encrypted session.",
          emits: .const,
          get: { .bool(entry()?.isPrivate ?? false) }),
        text("Direction", "incoming or outgoing.", emits: .const) { $0.direction.rawValue },
        Property(
          "Progress", "u", documentation: "How much of the file has been sent or received, in percent.",
          get: { .uint32(UInt32(clamping: entry()?.percent ?? 0)) }),
        text(
          "State",
          "For an incoming file: receiving (it may still be abandoned or refused) or received. For an outgoing file: "
            + "waiting, sending, and at the end sent, delivered, failed or cancelled."
        ) { $0.stateName },
        text("Reason", "Why the file failed; empty if it did not fail.") { $0.state.reason },
        Property(
          "Time", "t",
          documentation:
            "When the file was sent, in milliseconds since 1970-01-01 UTC; for a received private file, when it was "
            + "received.",
          get: { .uint64(entry()?.time ?? 0) }),
      ])
  }

  private static func methods(_ number: UInt32, _ service: MeshService, _ opened: OpenFiles) -> [Method] {
    [
      Method(
        "Open", out: [Argument("content", "h")],
        documentation:
          "Returns the content of a received file, or of one that is being sent, as a sealed memory file. All programs "
          + "together can have 32 MiB of contents open, and at most four files are read from disk at a time.",
        errors: [.notFound, .limitExceeded, .failed],
        handler: { call in
          opened.open(number) { file in
            switch file {
            case .success(let file): call.reply(.descriptor(file))
            case .failure(let error): call.fail(error)
            }
          }
        }),
      Method(
        "Cancel", documentation: "Stops sending the file: after the reply, no fragment of it is given to the radio.",
        errors: [.notReady],
        returning: { _ throws(DBusError) in
          guard service.files.cancel(number) else { throw .notReady("The file is not being sent.") }
          return []
        }),
      Method(
        "Delete",
        documentation:
          "Removes the file, and returns when its content is erased. A file that is being sent is cancelled.",
        errors: [.failed],
        handler: { call in
          service.files.delete(number) { error in
            if let error { call.fail(.failed(error.sentence)) } else { call.reply() }
          }
        }),
    ]
  }
}

import BitchatWire
import Common
import DBus
import Loop
import MeshNaming
import MeshStore

/// D-Bus adaptor of the mesh: `org.earshot.Mesh1`, and a `MeshPeer1` object below it for each peer.
@LoopActor
public final class MeshAdaptor {
  public nonisolated static let interfaceName = "org.earshot.Mesh1"
  public nonisolated static let path: ObjectPath = "/org/earshot/mesh"

  private let object: ExportedObject
  private let peers: MeshPeerObjects
  private let files: MeshFileObjects

  public init(_ service: MeshService, on tree: ObjectTree, manager: ObjectPath) {
    object = tree.export(Self.path, interfaces: [Self.interface(service)], manager: manager)
    peers = MeshPeerObjects(service, on: tree, below: Self.path, manager: manager)
    files = MeshFileObjects(service, on: tree, below: Self.path, manager: manager)
    service.node.changes.addForGood { [weak self] in
      self?.object.changed("State", "Reason", "Nickname", "PeerId", "Fingerprint", "Links", "Unread")
    }
    service.messages.arrivals.addForGood { [weak self] in
      self?.object.emit(Self.interfaceName, "MessageReceived", [.uint32($0)])
    }
    service.messages.uplinked.addForGood { [weak self] in
      self?.object.emit(Self.interfaceName, "MessageWentByUplink", [.uint32($0)])
    }
    service.files.arrivals.addForGood { [weak self] in
      self?.object.emit(Self.interfaceName, "FileReceived", [.uint32($0)])
    }
    service.files.progress.addForGood { [weak self] in
      self?.object.emit(Self.interfaceName, "FileStateChanged", [.uint32($0.number), .string($0.state)])
    }
    service.messages.progress.addForGood { [weak self] in
      self?.object.emit(
        Self.interfaceName, "MessageStateChanged", [.uint32($0.number), .string($0.state.name)])
    }
  }

  public static func interface(_ service: MeshService) -> Interface {
    Interface(
      interfaceName,
      documentation:
        "A node of the Bitchat mesh: public messages and files for everybody, and private messages and files for one "
        + "peer at a time.",
      audience: .everybody, methods: saying(service) + sending(service) + reading(service) + ownMethods(service),
      properties: properties(service),
      signals: [
        Signal(
          "MessageReceived", [Argument("message", "u")],
          documentation:
            "A message was received. ListMessages returns it if the argument after is the number before it."),
        Signal(
          "MessageStateChanged", [Argument("message", "u"), Argument("state", "s")],
          documentation: "The delivery state of a message of this node has changed: sent, delivered, read or failed."),
        Signal(
          "MessageWentByUplink", [Argument("message", "u")],
          documentation: "A private message of this node goes outside of the mesh: its way is now uplink."),
        Signal(
          "FileReceived", [Argument("file", "u")],
          documentation: "A file was received, and is stored on disk. Its object is fileN."),
        Signal(
          "FileStateChanged", [Argument("file", "u"), Argument("state", "s")],
          documentation:
            "The state of a file of this node has changed: waiting, sending, sent, delivered, failed or cancelled."),
      ])
  }

  private static func saying(_ service: MeshService) -> [Method] {
    [
      Method(
        "Say", in: [Argument("text", "s")], out: [Argument("message", "u")],
        documentation:
          "Sends a public message of at most 60,000 characters and 64 KiB to everybody in range. Returns the message's "
          + "number when it is stored on disk, or when storing it has failed, which Reason reports. With Archive=0s it "
          + "is not stored on disk. Fails with LimitExceeded while the queues of the links to the neighbours are full, "
          + "and after 600 messages in a minute, which is the limit of the neighbours.",
        errors: [.invalidArgs, .notReady, .limitExceeded, .notSupported],
        handler: { call in
          guard let text = call.arguments.first?.asString else { return call.fail(.invalidArgs("Say takes a text.")) }
          answer(call) { then throws(MeshRefusal) in try service.messages.say(text, then: then) }
        }),
      Method(
        "Tell", in: [Argument("peer", "s"), Argument("text", "s")], out: [Argument("message", "u")],
        documentation:
          "Sends a private message of at most 64 KiB to one peer. FindPeer has the rules for peer. Returns the "
          + "message's number when it is stored on disk, or when storing it has failed, which Reason reports. The "
          + "message is repeated until the peer acknowledges it, for at most a day and eight times; "
          + "MessageStateChanged reports its delivery state.",
        errors: [.invalidArgs, .notFound, .notReady, .limitExceeded, .notSupported],
        handler: { call in
          guard let peer = call.arguments.first?.asString, let text = call.arguments.last?.asString else {
            return call.fail(.invalidArgs("Tell takes a peer and a text."))
          }
          answer(call) { then throws(MeshRefusal) in try service.messages.tell(peer, text, then: then) }
        }),
      Method(
        "FindPeer", in: [Argument("name", "s")], out: [Argument("peer", "s")],
        documentation:
          "Returns the ID of the peer that a text names, by the rules of Tell, SendFile and Ping. 16 hexadecimal "
          + "digits are an ID, also of an unknown peer. A text that ends with # and 4 or 16 hexadecimal digits "
          + "(alice#1a2b) names a known peer by the end of its ID and by the nickname before the #. Any other text is "
          + "the nickname of one known peer, in upper or lower case. A nickname that several peers have is refused "
          + "with InvalidArgs, as is one that a favourite or verified peer had before; the error message lists the "
          + "candidates.",
        errors: [.invalidArgs, .notFound],
        returning: { call throws(DBusError) in
          do throws(MeshRefusal) {
            return [.string(try service.peers.peer(called: call.arguments.first?.asString ?? "").description)]
          } catch {
            throw DBusError(error)
          }
        }),
    ]
  }

  /// Replies with the number of a message once it is stored.
  private static func answer(
    _ call: MethodCall,
    _ body: (@escaping @LoopActor () -> Void) throws(MeshRefusal) -> UInt32
  ) {
    // The store may answer within the call.
    let box = NumberBox()
    do throws(MeshRefusal) {
      box.number = try body {
        box.isKept = true
        box.answer(call)
      }
      box.answer(call)
    } catch {
      call.fail(DBusError(error))
    }
  }

  @LoopActor
  private final class NumberBox {
    var number: UInt32?
    var isKept = false
    private var isAnswered = false

    func answer(_ call: MethodCall) {
      guard let number, isKept, !isAnswered else { return }
      isAnswered = true
      call.reply(.uint32(number))
    }
  }

  private static func reading(_ service: MeshService) -> [Method] {
    [
      Method(
        "ListMessages", in: [Argument("after", "u"), Argument("limit", "u")],
        out: [Argument("messages", "a(utssssss)")],
        documentation:
          "Returns the messages whose number is higher than after, oldest first. limit is the maximum number of "
          + "messages (0: 500). Each consists of its number; the time in milliseconds since 1970-01-01 UTC; the "
          + "conversation (empty for public messages, otherwise the peer's ID); the sender's ID; the sender's nickname "
          + "at that time; the text; the state: unread or seen for messages of others; waiting, sent, delivered, read "
          + "or failed for messages of this node; and the way: mesh, or uplink for a private message that was sent or "
          + "received over the uplink.",
        returning: { call throws(DBusError) in
          guard let after = call.arguments.first?.asUInt32, let limit = call.arguments.last?.asUInt32 else {
            throw .invalidArgs("ListMessages takes two numbers.")
          }
          let count = limit == 0 ? 500 : min(Int(limit), 5000)
          return [.array(of: "(utssssss)", service.messages.log.list(after: after, limit: count).map(\.value))]
        }),
      Method(
        "MarkRead", in: [Argument("message", "u")],
        documentation:
          "Marks a message and the earlier ones of its conversation as seen. The senders of private messages get read "
          + "receipts.",
        errors: [.notFound],
        returning: { call throws(DBusError) in
          guard let number = call.arguments.first?.asUInt32, service.messages.markRead(number) else {
            throw DBusError(.notFound, "No message has this number.")
          }
          return []
        }),
    ]
  }

  private static func ownMethods(_ service: MeshService) -> [Method] {
    [
      Method(
        "SetNickname", in: [Argument("nickname", "s")],
        documentation:
          "Sets the nickname of the node, which everybody in range can read: 1 to 60 bytes that can be shown on one "
          + "line. It takes precedence over the setting Nickname=.",
        errors: [.invalidArgs],
        returning: { call throws(DBusError) in
          let name = PastedText.trimmed(call.arguments.first?.asString ?? "")
          guard name.utf8.count <= MeshSettings.nicknameBytes, NicknameText.isUsable(name) else {
            throw .invalidArgs(
              "A nickname has 1 to \(MeshSettings.nicknameBytes) bytes of text that can be shown on one line.")
          }
          service.setNickname(name)
          return []
        }),
      Method(
        "Announce", documentation: "Announces the node to its neighbours at once, before the next periodic announce.",
        returning: { _ throws(DBusError) in
          service.announce()
          return []
        }),
      Method(
        "Wipe", in: [Argument("confirm", "s")],
        documentation:
          "Erases the node's keys, names, messages, files and courier envelopes, leaves the mesh, and joins it with a "
          + "new identity. confirm is the node's own peer ID, or unknown if it has none because the key of the mesh "
          + "store is missing, or because an earlier wipe failed. Returns when all of it is erased from the disk.",
        errors: [.invalidArgs, .failed],
        handler: { call in
          let confirm = PastedText.trimmed(call.arguments.first?.asString ?? "").lowercased()
          guard let word = service.wipeWord, confirm == word else {
            return call.fail(
              .invalidArgs(
                "Nothing was erased: confirm has to be this node's own peer ID, or unknown if the node has none."))
          }
          service.wipe { error in
            if let error { call.fail(.failed(error.sentence)) } else { call.reply() }
          }
        }),
      Method(
        "Topology", out: [Argument("links", "a(ss)")],
        documentation:
          "Returns the known pairs of peers that have a link with each other, each pair once.",
        returning: { _ throws(DBusError) in
          let pairs = service.node.engine?.pairs(at: service.node.now) ?? []
          return [
            .array(
              of: "(ss)",
              pairs.map { .structure([.string($0.0.description), .string($0.1.description)]) })
          ]
        }),
      Method(
        "VerificationCode", out: [Argument("text", "s")],
        documentation:
          "Returns the text of the QR code by which others verify this node; it is valid for five minutes. A relay has "
          + "no code, because it answers no challenges inside Noise.",
        errors: [.notReady, .notSupported],
        returning: { _ throws(DBusError) in
          guard service.settings.role.converses else { throw DBusError(MeshRefusal.relay) }
          guard let text = service.peers.verificationCode() else { throw .notReady(service.reason) }
          return [.string(text)]
        }),
      Method(
        "VerifyCode", in: [Argument("text", "s")], out: [Argument("peer", "s")],
        documentation:
          "Reads the text of another node's QR code, asks that peer to prove that it has the keys of the code, and "
          + "returns the peer's ID at once. Within half a minute, the property Proof of the peer's object has the "
          + "result. A peer that proves its keys becomes Verified.",
        errors: [.invalidArgs, .notFound, .notReady, .limitExceeded, .notSupported],
        returning: { call throws(DBusError) in
          [.string(try service.verify(code: call.arguments.first?.asString ?? "").description)]
        }),
    ]
  }

  private static func properties(_ service: MeshService) -> [Property] {
    [
      Property(
        "State", "s",
        documentation:
          "stopped, waitingForClock (nothing is sent before the clock is known to be right), alone or connected.",
        audience: .everybody, get: { .string(service.state.rawValue) }),
      Property(
        "Reason", "s",
        documentation:
          "A problem, or what this machine discloses to everybody in range, and what to do; empty if there is nothing "
          + "to report. State shows whether the node can send messages.", audience: .everybody,
        get: { .string(service.reason) }),
      Property(
        "Role", "s", documentation: "node, relay or mailbox.", audience: .everybody, emits: .const,
        get: { .string(service.settings.role.rawValue) }),
      Property(
        "Nickname", "s", documentation: "The nickname of the node.", audience: .group,
        get: { .string(service.nickname) }),
      Property(
        "PeerId", "s", documentation: "The peer ID of the node; empty while it is not known.", audience: .group,
        get: { .string(service.node.engine?.identity.id.description ?? "") }),
      Property(
        "Fingerprint", "s",
        documentation:
          "The fingerprint that people compare to verify the node, 64 hexadecimal digits.", audience: .group,
        get: {
          .string(service.node.engine.map { Fingerprint(noiseKey: $0.identity.noiseKey.publicKey).description } ?? "")
        }
      ),
      Property(
        "Links", "u", documentation: "The number of neighbours that have a link with the node.", audience: .group,
        get: { .uint32(UInt32(clamping: service.neighbours)) }),
      Property(
        "Unread", "u", documentation: "The number of unread messages of others.", audience: .group,
        get: { .uint32(UInt32(clamping: service.messages.log.unread)) }),
      Property(
        "Carried", "u",
        documentation: "The number of envelopes that the node carries for absent peers.",
        audience: .group, emits: .none, get: { .uint32(UInt32(clamping: service.carried)) }),
      Property(
        "SliceBytes", "u",
        documentation:
          "The number of bytes of a public file in each of its fragments, over the present links; 0 without links. "
          + "Android phones drop files of more than 256 fragments.",
        audience: .group, emits: .none, get: { .uint32(UInt32(clamping: service.node.engine?.sliceBytes ?? 0)) }),
      Property(
        "Counters", "a{st}",
        documentation:
          "Counters since the service started; those of packets and peers since the last Wipe.",
        audience: .everybody, emits: .none, get: { .tallies(service.tallies) }),
    ]
  }
}

extension MeshMessage {
  fileprivate var value: DBusValue {
    .structure([
      .uint32(number), .uint64(time), .string(conversation?.description ?? ""), .string(sender.description),
      .string(nickname), .string(text), .string(state.name), .string(way.rawValue),
    ])
  }
}

extension DBusError {
  init(_ refusal: MeshRefusal) {
    switch refusal {
    case .notReady: self = .notReady(refusal.sentence)
    case .empty, .tooLong, .tooManyCharacters, .emptyFile, .otherKind, .ourselves, .favouriteNotice:
      self = .invalidArgs(refusal.sentence)
    case .name(let name): self = name.isUnknown ? DBusError(.notFound, name.sentence) : .invalidArgs(name.sentence)
    case .tooManyWait, .linksFull, .tooManyPublicMessages, .tooManyPings, .fileTooLong, .tooManyFiles:
      self = .limitExceeded(refusal.sentence)
    case .relay: self = DBusError(.notSupported, refusal.sentence)
    }
  }
}

extension MeshAdaptor {
  static func sending(_ service: MeshService) -> [Method] {
    [
      Method(
        "SendFile",
        in: [Argument("file", "h"), Argument("name", "s"), Argument("mime", "s"), Argument("peer", "s")],
        out: [Argument("object", "o")],
        documentation:
          "Sends a regular file or a sealed memory file of at most 1 MiB, read to its end, to everybody or to one peer "
          + "(FindPeer has the rules). name is the file name for the recipients, with the extension of its type; mime "
          + "is one of the types that the apps accept, or empty to detect it from the content. Returns the object of "
          + "the file, whose State reports the progress. A private file is sent only to a peer that has announced "
          + "inside a session that it accepts private files. Android phones drop files of more than 256 fragments, "
          + "about 120 kB, or less where a neighbour accepts only small fragments (SliceBytes).",
        errors: [.invalidArgs, .notFound, .notReady, .limitExceeded, .notSupported, .busy, .timeout],
        handler: { sendFile($0, service) }),
      Method(
        "Ping", in: [Argument("peer", "s")], out: [Argument("milliseconds", "u"), Argument("hops", "u")],
        documentation:
          "Pings a peer (FindPeer has the rules), and returns the round-trip time and the number of hops of the "
          + "answer. Waits at most 10 s.",
        errors: [.invalidArgs, .notFound, .notReady, .limitExceeded, .timeout],
        handler: { ping($0, service) }),
    ]
  }

  /// Sends a file. Reading it may block, so it happens outside of the loop.
  private static func sendFile(_ call: MethodCall, _ service: MeshService) {
    let texts = call.arguments.dropFirst().compactMap(\.asString)
    guard let file = call.arguments.first?.asDescriptor, texts.count == 3 else {
      return call.fail(.invalidArgs("SendFile takes a file, its name, its type and a peer."))
    }
    call.read(file, limit: Limits.fileBytes) { result in
      do throws(DBusError) {
        let number = try send(try result.get(), texts, service)
        call.reply(.objectPath(MeshFileObjects.path(number)))
      } catch {
        call.fail(error)
      }
    }
  }

  private static func send(
    _ content: [UInt8], _ texts: [String], _ service: MeshService
  ) throws(DBusError) -> UInt32 {
    do throws(MeshRefusal) {
      return try service.files.send(file: content, name: texts[0], mime: texts[1], to: texts[2])
    } catch {
      throw DBusError(error)
    }
  }

  private static func ping(_ call: MethodCall, _ service: MeshService) {
    do throws(MeshRefusal) {
      try service.pings.ping(call.arguments.first?.asString ?? "") { pong in
        switch pong {
        case .answered(let milliseconds, let hops):
          call.reply(.uint32(milliseconds), .uint32(UInt32(clamping: hops)))
        case .lost: call.fail(.timeout("The peer has not answered within 10 s."))
        }
      }
    } catch {
      call.fail(DBusError(error))
    }
  }
}

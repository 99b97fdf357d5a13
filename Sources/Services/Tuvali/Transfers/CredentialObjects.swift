import Checking
import Common
import DBus
import Loop

/// D-Bus objects of a service's transfers, `org.earshot.Credential1`: one object per transfer.
@LoopActor
public final class CredentialObjects {
  public nonisolated static let interfaceName = "org.earshot.Credential1"

  private let tree: ObjectTree
  private let root: ObjectPath
  private let manager: ObjectPath
  private let actions: CredentialActions
  private var objects: [Int: ExportedObject] = [:]

  /// - Parameters:
  ///   - root: parent path of the transfers.
  ///   - manager: object manager that lists them.
  public init(
    _ list: TransferList, on tree: ObjectTree, below root: ObjectPath, manager: ObjectPath, actions: CredentialActions
  ) {
    self.tree = tree
    self.root = root
    self.manager = manager
    self.actions = actions
    list.observe(
      added: { [weak self] in self?.add($0) }, removed: { [weak self] in self?.objects[$0.number] = nil })
  }

  /// Path `credentialN` below the root, with the number of the transfer, which is never reused.
  public func path(of transfer: Transfer) -> ObjectPath {
    root.child("credential\(transfer.number)")
  }

  private func add(_ transfer: Transfer) {
    let interface = Self.interface(transfer, actions)
    let object = tree.export(path(of: transfer), interfaces: [interface], manager: manager)
    objects[transfer.number] = object
    transfer.onChange { [weak object] _ in
      object?.changed(
        "State", "Live", "Peer", "Dialect", "Mtu", "BytesExpected", "BytesTransferred", "ChunksExpected",
        "ChunksMissing", "CrcFailures", "ErrorCode", "ErrorMessage", "ReceivedAt", "ExpiresAt", "Fetched",
        "VerdictDeadline", "VerdictDelivery", "Size", "StartedAt", "Verdict", "VerdictReasons", "Issuer",
        "CredentialType")
    }
  }

  /// Returns the D-Bus interface `org.earshot.Credential1` of one transfer.
  public static func interface(_ transfer: Transfer, _ actions: CredentialActions) -> Interface {
    Interface(
      interfaceName,
      documentation: "The transfer of a credential from a wallet to this verifier, or from this wallet to a verifier.",
      audience: .everybody,
      methods: methods(transfer, actions), properties: properties(transfer))
  }

  private static func methods(_ transfer: Transfer, _ actions: CredentialActions) -> [Method] {
    [
      Method(
        "GetCredential", out: [Argument("credential", "s")],
        documentation:
          "Returns the credential that was received, until it is rejected, or accepted and fetched. A text with U+0000 or a "
          + "noncharacter (U+FFFE, for example) in it, and one that is too long for an answer (about 32 MB), needs "
          + "OpenCredential, and is not fetched by this call.",
        errors: [.notReady, .limitExceeded, .failed],
        handler: { call in
          give(call, transfer, actions) { text throws(DBusError) in
            let credential = try text.bytes()
            if let scalar = BusText.firstRefused(in: credential) {
              throw .failed("The credential has \(scalar) in it, which a D-Bus string cannot hold. Use OpenCredential.")
            }
            return .string(String(decoding: credential, as: UTF8.self))
          }
        }),
      Method(
        "OpenCredential", out: [Argument("credential", "h")],
        documentation: "Returns the exact bytes of the credential as a sealed memory file in UTF-8.",
        errors: [.notReady, .failed],
        handler: { call in
          give(call, transfer, actions) { text throws(DBusError) in .descriptor(try text.file()) }
        }),
      Method(
        "GetClaims", out: [Argument("claims", "s")],
        documentation:
          "Returns the claims of the credential as a JSON object: those that the issuer's signature covers and the trust folder "
          + "allows. They are erased with the credential.",
        errors: [.notReady],
        handler: { call in
          give(call, transfer) { document throws(DBusError) in
            guard let claims = CheckReply.claims(in: document) else {
              throw .notReady("The checker returned no claims: the signature was not verified.")
            }
            return claims
          }
        }),
      Method(
        "GetVerdict", out: [Argument("verdict", "s")],
        documentation:
          "Returns the whole verdict of the checker as a JSON object: also the period of validity, the status, the claims that are not "
          + "signed, and the digest of the credential. It is erased with the credential.",
        errors: [.notReady],
        handler: { call in give(call, transfer) { document in String(decoding: document, as: UTF8.self) } }),
      Method(
        "Accept",
        documentation: "Accepts the credential, notifies the phone if it is still connected (VerdictDelivery shows "
          + "whether), and returns when the verdict is on the disk. A credential that was not fetched yet can still be "
          + "fetched once, and is then erased.",
        errors: [.notReady],
        handler: { decide($0, transfer, true, actions) }),
      Method(
        "Reject",
        documentation: "Rejects the credential, notifies the phone if it is still connected (VerdictDelivery shows "
          + "whether), and returns when the credential is erased.",
        errors: [.notReady],
        handler: { decide($0, transfer, false, actions) }),
      Method(
        "Disconnect", documentation: "Ends the link to the peer. A transfer under way fails.", errors: [.notReady],
        returning: { _ throws(DBusError) in
          guard actions.disconnect(transfer) else { throw .notReady("The link of this transfer has already ended.") }
          return []
        }),
    ]
  }

  /// Replies with the credential. It counts as fetched when the bus has accepted the reply: not for a call that wants
  /// no reply, and not if sending fails.
  private static func give(
    _ call: MethodCall, _ transfer: Transfer, _ actions: CredentialActions,
    as form: (CredentialText) throws(DBusError) -> DBusValue
  ) {
    // The stack contains parts of the text.
    defer { ProcessMemory.wipeStack() }
    do throws(DBusError) {
      try call.handOver([try form(try text(of: transfer))], taken: { actions.taken(transfer) })
    } catch  where error.is(.limitExceeded) {
      call.fail(.limitExceeded("\(error.message) OpenCredential returns the credential as a file."))
    } catch {
      call.fail(error)
    }
  }

  private static func decide(
    _ call: MethodCall, _ transfer: Transfer, _ accepted: Bool, _ actions: CredentialActions
  ) {
    let state = transfer.state
    if actions.decide(transfer, accepted, { call.reply() }) { return }
    call.fail(.notReady("There is no credential to judge: the transfer is in state \(state.rawValue)."))
  }

  private static func text(of transfer: Transfer) throws(DBusError) -> CredentialText {
    guard transfer.direction == .incoming else {
      throw .notReady("This transfer sends a credential and has not received one.")
    }
    guard let text = transfer.text else {
      throw .notReady("There is no credential: the transfer is in state \(transfer.state.rawValue).")
    }
    return text
  }

  /// Replies with a part of the checker's verdict.
  private static func give(
    _ call: MethodCall, _ transfer: Transfer, _ text: ([UInt8]) throws(DBusError) -> String
  ) {
    // The stack contains parts of the claims.
    defer { ProcessMemory.wipeStack() }
    do throws(DBusError) {
      try call.handOver([.string(try text(try verdict(of: transfer)))], taken: {})
    } catch {
      call.fail(error)
    }
  }

  /// Returns the checker's whole verdict on the credential as JSON.
  private static func verdict(of transfer: Transfer) throws(DBusError) -> [UInt8] {
    if let document = transfer.verdictDocument { return try document.bytes() }
    switch transfer.check {
    case .none: throw .notReady("The credential was not checked.")
    case .pending: throw .notReady("The credential is being checked; VerdictReceived announces the verdict.")
    case .done(let verdict):
      if let failure = verdict.failure { throw .notReady("The checker gave no verdict. \(failure.sentence)") }
      throw .notReady("The claims are not stored: the credential was erased, or there was no capacity for them.")
    }
  }

  /// Properties of the checker's verdict, with the same audience as the credential.
  private static func checkProperties(_ transfer: Transfer) -> [Property] {
    func verdict() -> CheckVerdict? { if case .done(let verdict) = transfer.check { verdict } else { nil } }
    return [
      Property(
        "Verdict", "s",
        documentation:
          "The checker's verdict: valid, invalid, untrusted, revoked, expired, notYetValid or undecided. Before the verdict pending; empty if "
          + "the credential is not checked (Check=no). valid does not mean that the person who presents the credential is its holder.",
        audience: .group,
        get: { .string(transfer.check == .pending ? "pending" : verdict()?.word.rawValue ?? "") }),
      Property(
        "VerdictReasons", "a(ss)",
        documentation:
          "The reasons for the verdict, each a stable code and a sentence for people. docs/check.md lists the codes.",
        audience: .group,
        get: {
          .array(of: "(ss)", (verdict()?.reasons ?? []).map { .structure([.string($0.code), .string($0.sentence)]) })
        }),
      Property(
        "Issuer", "s",
        documentation: "The issuer's name in the trust folder; empty if no trust entry was used.",
        audience: .group, get: { .string(verdict()?.issuer ?? "") }),
      Property(
        "CredentialType", "s", documentation: "The signed type of the credential; empty if it is unknown.",
        audience: .group, get: { .string(verdict()?.type ?? "") }),
    ]
  }

  private static func properties(_ transfer: Transfer) -> [Property] {
    transferProperties(transfer) + checkProperties(transfer)
  }

  private static func transferProperties(_ transfer: Transfer) -> [Property] {
    [
      Property(
        "Direction", "s", documentation: "incoming or outgoing.", audience: .everybody, emits: .const,
        get: { .string(transfer.direction.rawValue) }),
      Property(
        "State", "s",
        documentation:
          "searching, connected, transferring, received; at the end accepted, rejected, undecided or failed.",
        audience: .everybody, get: { .string(transfer.state.rawValue) }),
      Property(
        "Live", "b", documentation: "Whether the link exists or is being established.", audience: .everybody,
        get: { .bool(transfer.isLive) }),
      Property(
        "Peer", "s", documentation: "The other side's Bluetooth address; empty while it is unknown.",
        audience: .group, get: { .string(transfer.peer?.description ?? "") }),
      Property(
        "Dialect", "s", documentation: "The dialect in use: 0.5, 0.4 or 0.3.", audience: .everybody,
        get: { .string(transfer.dialect) }),
      Property(
        "Mtu", "q", documentation: "The ATT MTU.", audience: .everybody,
        get: { .uint16(UInt16(clamping: transfer.figures.mtu)) }),
      Property(
        "BytesExpected", "t", documentation: "Size of the encrypted frame; 0 before it is known.",
        audience: .everybody, get: { .uint64(UInt64(transfer.figures.bytesExpected)) }),
      Property(
        "BytesTransferred", "t", documentation: "Bytes of the frame that were received, or sent once.",
        audience: .everybody, get: { .uint64(UInt64(transfer.figures.bytesTransferred)) }),
      Property(
        "ChunksExpected", "u", documentation: "Chunks of the frame.",
        audience: .everybody, get: { .uint32(UInt32(clamping: transfer.figures.chunksExpected)) }),
      Property(
        "ChunksMissing", "u",
        documentation: "Chunks not received yet; of an outgoing transfer, those that the last report named.",
        audience: .everybody, get: { .uint32(UInt32(clamping: transfer.figures.chunksMissing)) }),
      Property(
        "CrcFailures", "u", documentation: "Chunks that arrived with a wrong checksum.",
        audience: .everybody, get: { .uint32(UInt32(clamping: transfer.figures.crcFailures)) }),
      Property(
        "ErrorCode", "s",
        documentation:
          "The stable code of the error that ended the transfer, such as TVV_TRA_002; empty without an error.",
        audience: .everybody, get: { .string(transfer.error?.code ?? "") }),
      Property(
        "ErrorMessage", "s", documentation: "The error as a sentence.",
        audience: .group, get: { .string(transfer.error?.sentence ?? "") }),
      Property(
        "Size", "t",
        documentation: "Size of the credential in bytes, also after it was erased; 0 before it is known.",
        audience: .everybody, get: { .uint64(UInt64(transfer.size)) }),
      Property(
        "StartedAt", "t",
        documentation:
          "When the transfer began, in milliseconds since 1970-01-01 UTC; 0 if it began in an earlier run of the service.",
        audience: .everybody, get: { .uint64(UInt64(clamping: transfer.startedAt)) }),
      Property(
        "ReceivedAt", "t",
        documentation:
          "When the credential was received, in milliseconds since 1970-01-01 UTC by the present setting of the clock; 0 "
          + "before.",
        audience: .everybody, get: { .uint64(UInt64(clamping: transfer.receivedAt)) }),
      Property(
        "ExpiresAt", "t",
        documentation:
          "When the credential will be erased if it is not judged and fetched, in milliseconds since 1970-01-01 UTC; 0 when none waits.",
        audience: .everybody, get: { .uint64(UInt64(clamping: transfer.expiresAt)) }),
      Property(
        "Fetched", "b", documentation: "Whether a program has fetched the credential since the service started.",
        audience: .everybody, get: { .bool(transfer.wasTaken) }),
      Property(
        "VerdictDeadline", "t",
        documentation:
          "While the phone is connected and waits for a verdict: when the service stops waiting for Accept or Reject and "
          + "asks the phone to leave, at the latest, in milliseconds since 1970-01-01 UTC; otherwise 0.",
        audience: .everybody, get: { .uint64(UInt64(clamping: transfer.verdictDeadline)) }),
      Property(
        "VerdictDelivery", "s",
        documentation:
          "Empty before a verdict; sent if the verdict was handed to the radio for a phone that was still connected; "
          + "peerGone if the phone had already left and was not notified.",
        audience: .everybody, get: { .string(transfer.verdictDelivery.rawValue) }),
    ]
  }
}

/// Actions of local programs on a transfer, carried out by the service that owns it.
@LoopActor
public struct CredentialActions {
  public typealias Then = @LoopActor () -> Void

  /// Records the verdict and notifies the wallet. Calls `Then` when the verdict is on disk. Returns false if there is
  /// no credential to judge.
  public var decide: @LoopActor (Transfer, Bool, @escaping Then) -> Bool
  /// Records that a program has fetched the credential.
  public var taken: @LoopActor (Transfer) -> Void
  /// Ends the link. Returns false if there is none.
  public var disconnect: @LoopActor (Transfer) -> Bool

  public init(
    decide: @escaping @LoopActor (Transfer, Bool, @escaping Then) -> Bool,
    taken: @escaping @LoopActor (Transfer) -> Void, disconnect: @escaping @LoopActor (Transfer) -> Bool
  ) {
    self.decide = decide
    self.taken = taken
    self.disconnect = disconnect
  }
}

import Testing

@testable import Journal

@Suite struct CatalogTests {
  @Test("The journal catalog has one entry for each message ID, in the journal's format")
  func entries() {
    let first = MessageID(
      "First", "00000000000000000000000000000001", "The first", "It has happened.\n\nTwo paragraphs.")
    let second = MessageID("Second", "00000000000000000000000000000002", "The second", "Transfer @EARSHOT_TRANSFER@.")
    #expect(
      MessageCatalog.text([second, first, second]) == """
        # The messages of earshotd, explained: journalctl --catalog.

        -- 00000000000000000000000000000002
        Subject: The second
        Defined-By: earshotd

        Transfer @EARSHOT_TRANSFER@.

        -- 00000000000000000000000000000001
        Subject: The first
        Defined-By: earshotd

        It has happened.

        Two paragraphs.

        """)
  }
}

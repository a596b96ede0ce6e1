use packtrain_tests::writer::*;
fn main(){
    for (n,suite) in Suite::ALL.iter().enumerate(){
        let mut w=Writer::new(*suite,"test");
        w.cut=300; w.list=5; w.fragments=2;
        let big:Vec<u8>=(0..3_000_000u32).map(|n|(n.wrapping_mul(n)>>7) as u8).collect();
        let mut items=vec![Item::folder(b"d")];
        items.push(w.file("d/small",b"hello\n"));
        items.push(w.file("d/empty",b""));
        items.push(w.file("d/big",&big));
        let z=w.content_as(&[7u8;100_000],50_000,&Packing::Zstd(3)); items.push(Item::file(b"d/zstd",&z));
        items.push(Item::link(b"d/l",b"small"));
        items.push(w.file("d/h1",b"linked").group(9));
        items.push(w.file("d/h2",b"linked").group(9));
        items.push(Item::new(b"d/p",0o010_600));
        let id=w.put(&Object{padding:Some(77),..Object::new(b'F',&[9u8;9000]).packed(Packing::Lz4)});
        items.push(Item::file(b"d/padded",&[(id,9000)]));
        let p=vec![5u8;7000]; let id=w.put(&Object{size:None,..Object::new(b'F',&p).packed(Packing::Zstd(1))});
        items.push(Item::file(b"d/nosize",&[(id,7000)]));
        w.archive("a1",&items);
        w.archive("a1",&[]);
        let root=std::path::PathBuf::from(format!("/tmp/h5borg/{n}"));
        w.save_for_borg(&root).unwrap();
    }
}
